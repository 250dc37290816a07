"""Random and mutated frames against a framed socket of a running daemon: `python -m tests.hostile.frames --count N`.

After each batch the next good request must be answered; at the end the daemon must live and must not have grown.
"""

import argparse
import contextlib
import random
import shutil
import socket
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from proto import frame, sockets
from proto.messages.wire import Ok, Ping
from proto.role.ask import ask
from tests.e2e.box import DAEMONS, Box, running
from tests.proto.samples import SAMPLES

_BATCH: Final = 50
_MOST_GROWTH_KIB: Final = 48 * 1024
"""Allocators keep what a first burst needed; what is looked for is growth with the count."""


def hostile(rng: random.Random, kinds: list[str]) -> tuple[bytes, bool]:
    """Bytes to send, and whether the sender closes without waiting for an answer."""
    body = bytearray(frame.pack(SAMPLES[rng.choice(kinds)])[frame.HEADER_BYTES :])
    form = rng.randrange(8)
    if form == 0:
        body = bytearray(rng.randbytes(rng.randrange(1, 400)))
    elif form <= 4:
        for _ in range(rng.randrange(1, 6)):
            body[rng.randrange(len(body))] = rng.randrange(256)
    elif form == 5:
        body += rng.randbytes(rng.randrange(1, 40))
    length = len(body)
    if form == 6:
        length = rng.choice([0, 1, len(body) - 1, len(body) + 7, frame.MAX_FRAME, frame.MAX_FRAME + 1, 2**32 - 1])
    data = struct.pack(">I", length) + bytes(body)
    if form == 7:
        data = data[: rng.randrange(1, len(data))]
    return data, rng.random() < 0.3


def attack(path: Path, kinds: list[str], count: int, seed: int) -> None:
    """Send so many hostile frames; a ping must be answered after each batch."""
    rng = random.Random(seed)
    for number in range(count):
        data, leaves = hostile(rng, kinds)
        with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
            client.settimeout(10)
            client.connect(str(path))
            client.sendall(data)
            if not leaves:
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
        if number % _BATCH == _BATCH - 1:
            assert ask(path, Ping(), Ok, timeout_s=10) == Ok()


def rss_kib(pid: int) -> int:
    """The resident memory of a process and its children, in KiB."""
    total = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            if str(pid) in (status.parent.name, fields["PPid"].strip()):
                total += int(fields.get("VmRSS", "0 kB").split()[0])
    return total


def rows_of(daemon: str) -> list[sockets.Socket]:
    """The framed sockets that a daemon answers on."""
    return [row for row in sockets.served_by(daemon) if row.protocol == "frames" and row.requests]


@contextlib.contextmanager
def alone(home: Path, daemon: str) -> Iterator[Box]:
    """A box with one daemon, which soon gives up on the others: nobody is to wait for those that are not there."""
    (home / "config").mkdir(exist_ok=True)
    (home / "config/brokerd.toml").write_text(
        "[memory]\ntimeout_s = 0.05\n[egress]\ntimeout_s = 0.05\nnotice_s = 0.05\n"
    )
    with running(home, daemon) as box:
        yield box


def attack_daemon(box: Box, daemon: str, count: int, seed: int) -> list[str]:
    """Attack every framed socket of a daemon; a line for each, with the growth in KiB."""
    lines = []
    for row in rows_of(daemon):
        kinds = [str(kind.__struct_config__.tag) for kind in row.answers]
        attack(row.at(box.home), kinds, min(count, 500), seed)
        before = rss_kib(box.pid(daemon))
        attack(row.at(box.home), kinds, count, seed + 1)
        grown = rss_kib(box.pid(daemon)) - before
        assert box.alive(daemon)
        assert grown < _MOST_GROWTH_KIB, f"{row.path}: grew by {grown} KiB over {count} frames"
        lines.append(f"{row.path:40} {count:7} frames, grew by {grown:6} KiB")
    return lines


def main(arguments_list: list[str] | None = None) -> int:
    """Attack every framed socket of a box."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args(arguments_list)
    home = Path(tempfile.mkdtemp(prefix="bx"))
    try:
        for daemon in DAEMONS:
            with alone(home, daemon) as box:
                for line in attack_daemon(box, daemon, arguments.count, arguments.seed):
                    sys.stdout.write(f"{line}\n")
                    sys.stdout.flush()
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
