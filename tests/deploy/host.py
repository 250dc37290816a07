"""A host of its own for a test: a real systemd as PID 1 of namespaces, on an overlay of this machine's root.

Features: boot in about a second; run a command in it; copy a file into it; boot it again on the same root; end it with
all that runs in it. Nothing that it does reaches the machine. Root, Linux and a cgroup2 tree are needed; `missing`
says what is not there.
"""

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_BOOT: Final = Path(__file__).with_name("boot.sh")
_CHECKOUT: Final = Path(__file__).parents[2]
_SYSTEMD: Final = Path("/lib/systemd/systemd")
_PROGRAMS: Final = ("unshare", "nsenter", "mount", "pivot_root", "ip", "systemctl")
_NAMESPACES: Final = ("unshare", "--mount", "--pid", "--cgroup", "--net", "--fork", "--mount-proc", "true")
_CLONE_NEWNET: Final = 0x40000000
_BOOT_SECONDS: Final = 30.0
_UMASK: Final = 0o022
"""As a host has it: with a root that only root may enter, no other user's service would start."""
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where the host's own programs are."""


def missing() -> str | None:
    """Why there can be no such host here; None if there can."""
    if os.geteuid() != 0:
        return "a systemd of its own needs root"
    if not _SYSTEMD.exists():
        return "systemd is not installed"
    if lacking := [name for name in _PROGRAMS if shutil.which(name, path=PATH) is None]:
        return f"not installed: {', '.join(lacking)}"
    if _cgroup2() is None:
        return "there is no cgroup2 tree in which a folder can be made"
    tried = subprocess.run(_NAMESPACES, check=False, capture_output=True, text=True)
    return None if tried.returncode == 0 else f"no namespaces can be made: {tried.stderr.strip()}"


def _cgroup2() -> Path | None:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, of = line.partition(" - ")
        if of.split()[0] == "cgroup2":
            place = Path(fields.split()[4])
            return place if os.access(place, os.W_OK) else None
    return None


class Host:
    """A root of its own, and the systemd that runs on it."""

    def __init__(self) -> None:
        found = _cgroup2()
        assert found is not None, missing()
        # Two at once disturb one another: the second waits.
        self._alone = open(Path(tempfile.gettempdir()) / "boxmaker-test-host.lock", "w")  # noqa: SIM115  (closed at the end)
        fcntl.flock(self._alone, fcntl.LOCK_EX)
        self._folder = Path(tempfile.mkdtemp(prefix="bxhost"))
        self._cgroup = found / self._folder.name
        self._booted: subprocess.Popen[bytes] | None = None
        self._log = self._folder.with_suffix(".log")
        self.pid = 0
        # Holds the file system on which everything lies that the host writes.
        hold = f"mount --make-rprivate / && mount -t tmpfs tmpfs {self._folder} && echo held && exec sleep infinity"
        self._holder = subprocess.Popen(("unshare", "--mount", "sh", "-c", hold), stdout=subprocess.PIPE)
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == b"held\n"

    def boot(self) -> "Host":
        """Start systemd, and wait until it has started what it starts.

        Raises:
            AssertionError: it did not come up in time.

        """
        self._cgroup.mkdir(exist_ok=True)
        words = ("--pid", "--mount", "--cgroup", "--uts", "--ipc", "--net", "--fork", "--kill-child")
        holder = ("nsenter", "-t", str(self._holder.pid), "--mount", "--")
        enter = f"echo $$ >{self._cgroup}/cgroup.procs && exec "
        command = (*holder, "unshare", *words, "bash", str(_BOOT), str(self._folder), str(_CHECKOUT))
        with self._log.open("wb") as log:
            self._booted = subprocess.Popen(
                ("sh", "-c", f'{enter}"$@"', "sh", *command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                umask=_UMASK,
            )
        deadline = time.monotonic() + _BOOT_SECONDS
        while time.monotonic() < deadline and self._booted.poll() is None:
            if self._is_up(self._booted.pid):
                return self
            time.sleep(0.05)
        raise AssertionError(f"systemd did not come up: {self._log.read_text()}{self._why()}")

    def _why(self) -> str:
        """What a systemd that is there still waits for, or that there is none."""
        if self._booted is None or self._booted.poll() is not None or not self.pid:
            return f"ended with {self._booted and self._booted.poll()}"
        state = self.run("systemctl", "is-system-running", check=False).stdout
        return state + self.run("systemctl", "list-jobs", "--no-pager", check=False).stdout

    def _is_up(self, parent: int) -> bool:
        first = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        if not first or Path(f"/proc/{first[0]}/comm").read_text().strip() != "systemd":
            return False
        self.pid = int(first[0])
        return self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded")

    def run(self, *command: str, check: bool = True, timeout_s: float = 60.0, given: str | None = None) -> "Done":
        """Run a command in the host, as root; what it wrote and its exit code.

        Raises:
            AssertionError: it failed, and `check` is set.

        """
        done = subprocess.run(
            ("nsenter", "-t", str(self.pid), "-a", "--", *command),
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            cwd="/",
            env={"PATH": PATH, "LANG": "C.UTF-8", "HOME": "/root"},
            umask=_UMASK,
        )
        assert not check or done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def put(self, path: str, text: str, mode: str = "644") -> None:
        """Write a file in the host."""
        self.run("sh", "-c", f"mkdir -p $(dirname {path}) && cat >{path} && chmod {mode} {path}", given=text)

    @property
    def root(self) -> Path:
        """The root of the host, as this process may reach it."""
        return Path(f"/proc/{self.pid}/root")

    @contextlib.contextmanager
    def network(self) -> Iterator[None]:
        """Within the block, the sockets that this thread makes are in the host's network."""
        with open("/proc/thread-self/ns/net") as ours, open(f"/proc/{self.pid}/ns/net") as theirs:
            _enter(theirs.fileno())
            try:
                yield
            finally:
                _enter(ours.fileno())

    def halt(self) -> None:
        """End systemd and all that it runs, at once, as a power failure would. Its root stays."""
        if self._booted is not None:
            if self.pid:
                _kill(self.pid)
            self._booted.wait(10)
            self._booted, self.pid = None, 0
        _remove_cgroups(self._cgroup)

    def end(self) -> None:
        """End everything, the root too."""
        self.halt()
        self._holder.kill()
        self._holder.communicate()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._log.unlink(missing_ok=True)
        self._alone.close()


Done = subprocess.CompletedProcess[str]


def _enter(namespace: int) -> None:
    """Enter a network namespace with this thread (setns(2); Python has it since 3.12)."""
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _remove_cgroups(top: Path) -> None:
    """Remove a tree of cgroups, once the kernel has seen that they are empty."""
    deadline = time.monotonic() + 5
    while top.exists() and time.monotonic() < deadline:
        for folder, _, _ in os.walk(top, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                continue
        time.sleep(0.05)
