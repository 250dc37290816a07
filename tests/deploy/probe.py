"""Run inside a unit in the place of its daemon: tries what it may and may not do, and prints what it tried and what it could, as JSON.

`python -I probe.py HOME`. It stands for whatever a daemon could be made to run. What a daemon must be able to do beside
its work is tried too: to resolve a name, and to have a page read in a process of its own with limits.
"""

import ctypes
import json
import mmap
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

HOME = Path(sys.argv[1])
FOLDERS = [
    "config",
    "grants",
    "policy",
    "memory",
    "record",
    "index",
    "ledger",
    "quarantine",
    "audit",
    "sessions",
    "homes",
    "local",
    "state/memoryd",
    "state/brokerd",
    "state/egressd",
    "state/loopd",
    "state/launcherd",
    "state/bxctl",
]
FILES = ("grants.toml", "credentials.env", "prices.toml", "local/credentials.env", "local/prices.toml")
SOCKETS = [
    "loop-memory/memory",
    "broker-memory/memory",
    "owner-memory/admin",
    "egress-memory/context",
    "loop-broker/broker",
    "egress-broker/broker",
    "egress-broker/tools",
    "owner-broker/admin",
    "loop-egress/egress",
    "broker-egress/egress",
    "launcher-egress/egress",
    "owner-egress/admin",
    "owner-loop/admin",
    "egress-model/scripted",
]
_CLONE_NEWUSER = 0x10000000


def _connect(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))


def _write(folder: Path) -> None:
    path = folder / ".probe"
    path.write_text("x")
    path.unlink()


def _append(path: Path) -> None:
    with path.open("a"):
        return


def _network(family: socket.AddressFamily) -> None:
    socket.socket(family).close()


def _new_user_namespace() -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def _write_and_run() -> None:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC).close()


def _mount() -> None:
    if ctypes.CDLL(None, use_errno=True).mount(b"none", b"/tmp", b"tmpfs", 0, None) != 0:
        raise OSError(ctypes.get_errno(), "mount")


def _see_processes() -> None:
    """Whether a process of another user is in sight."""
    if not [name for name in os.listdir("/proc") if name == "1"]:
        raise FileNotFoundError("/proc/1")


def _resolve() -> None:
    socket.getaddrinfo("localhost", 443, type=socket.SOCK_STREAM)


def _read_a_page() -> None:
    """As egressd does: a worker that limits its own time and memory."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-I", "-m", "egressd.reader", str(theirs.fileno()), str(os.getpid())]
    with ours, theirs, subprocess.Popen(command, pass_fds=[theirs.fileno()]):
        theirs.close()
        asked = b'["utf-8", "https://example.org/", 1000]\n<p>words</p>'
        ours.sendall(struct.pack(">I", len(asked)) + asked)
        answer = ours.recv(4, socket.MSG_WAITALL)
        answer = ours.recv(struct.unpack(">I", answer)[0], socket.MSG_WAITALL) if answer else b""
        ours.close()
    if b"words" not in answer:
        raise OSError("no page was read")


TRIES: dict[str, Callable[[], object]] = {
    **{f"list {name}": lambda name=name: os.listdir(HOME / name) for name in FOLDERS},  # type: ignore[misc]
    **{f"write {name}": lambda name=name: _write(HOME / name) for name in FOLDERS},  # type: ignore[misc]
    **{f"read {name}": lambda name=name: (HOME / name).read_bytes() for name in FILES},  # type: ignore[misc]
    **{f"append {name}": lambda name=name: _append(HOME / name) for name in FILES},  # type: ignore[misc]
    **{f"ask {name}": lambda name=name: _connect(HOME / f"run/{name}.sock") for name in SOCKETS},  # type: ignore[misc]
    "resolve a name": _resolve,
    "read a page": _read_a_page,
    "write .": lambda: _write(HOME),
    "write run/sessions": lambda: _write(HOME / "run/sessions"),
    "open AF_INET": lambda: _network(socket.AF_INET),
    "open AF_INET6": lambda: _network(socket.AF_INET6),
    "open AF_NETLINK": lambda: _network(socket.AF_NETLINK),
    "open AF_PACKET": lambda: _network(socket.AF_PACKET),
    "write /etc": lambda: _write(Path("/etc")),
    "write /usr": lambda: _write(Path("/usr/local")),
    "write /opt/boxmaker": lambda: _write(Path("/opt/boxmaker")),
    "write /tmp": lambda: _write(Path("/tmp")),
    "list /root": lambda: os.listdir("/root"),
    "list /etc/boxmaker/keys": lambda: os.listdir("/etc/boxmaker/keys"),
    "read a key of systemd": lambda: os.listdir(os.environ["CREDENTIALS_DIRECTORY"]),
    "be root": lambda: os.setuid(0),
    "make a user namespace": _new_user_namespace,
    "mount": _mount,
    "map memory to write and run": _write_and_run,
    "see process 1": _see_processes,
    "set the host's name": lambda: socket.sethostname("x"),
}


def main() -> None:
    """Try everything."""
    could = []
    for name, act in TRIES.items():
        try:
            act()
        except (OSError, KeyError):
            continue
        could.append(name)
    sys.stdout.write(json.dumps([list(TRIES), could]))


if __name__ == "__main__":
    main()
