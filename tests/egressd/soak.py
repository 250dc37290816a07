"""A soak: calls whose upstream does to each what a bad day does. `python -m tests.egressd.soak --calls N`.

Faults, drawn at random (the seed is printed): a reset before the head, in it, or amid the body; a stall; half a head; a
length that is too long or too short; 500, 429; a slow trickle; a client that leaves. When all is over egressd must hold
nothing of them: no file, no reservation; and the books have each call exactly once.
"""

import argparse
import asyncio
import collections
import contextlib
import os
import random
import shutil
import socket
import sqlite3
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from proto.messages import egress
from tests.bench.streams import chunk
from tests.e2e.box import Box, running
from tests.egressd import own
from tests.hostile.frames import rss_kib

SESSION: Final = "run-soak"
_AT_ONCE: Final = 24
_OUTPUT_TOKENS: Final = 40
_BODY: Final = (
    b'{"model":"soak-1","stream":true,"max_tokens":40,"messages":[{"role":"user","content":"' + b"x" * 400 + b'"}]}'
)
_FAULTS: Final = (
    "none", "none", "none", "reset-first", "reset-head", "reset-body", "stall", "half-head", "too-long", "too-short",
    "500", "429", "trickle", "client-leaves", "garbage",
)  # fmt: skip
_GRANTS: Final = """\
[destinations.soak]
base_url = "http://127.0.0.1:{port}"
ceiling = "private"

[spend.soak]
day_tokens = {limit}
"""
_SETTINGS: Final = "[relay]\nidle_s = 1.0\nanswer_s = 1.0\ndrain_s = 1.0\n"


class BadDay:
    """The upstream: one connection after another, each call answered as the dice say."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self.drawn: collections.Counter[str] = collections.Counter()
        self.told_tokens = 0
        """Of calls whose usage was said whole to whoever read on."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the calls of one connection."""
        # Also when it is still open as the day ends: the loop must not be gone before it.
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
                )
                await reader.readexactly(length)
                fault = self._dice.choice(_FAULTS)
                self.drawn[fault] += 1
                if not await self._answer(fault, writer):
                    break

    async def _answer(self, fault: str, writer: asyncio.StreamWriter) -> bool:
        """Answer, or do what the fault says; whether the connection goes on."""
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        match fault:
            case "reset-first":
                return _reset(writer)
            case "reset-head":
                writer.write(head[:40])
                return _reset(writer)
            case "half-head":
                writer.write(head[:40])
                await writer.drain()
                return False
            case "garbage":
                writer.write(self._dice.randbytes(300))
                return False
            case "stall":
                await asyncio.sleep(1.5)
                return False
            case "500" | "429":
                body = b'{"error":{"message":"a bad day"}}'
                writer.write(b"HTTP/1.1 %s No\r\nContent-Length: %d\r\n\r\n%s" % (fault.encode(), len(body), body))
                return True
            case "too-long" | "too-short":
                size = 9_000 if fault == "too-long" else 9
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b'{"choices": [], "model": "m"}')
                return False
            case _:
                return await self._stream(fault, head, writer)

    async def _stream(self, fault: str, head: bytes, writer: asyncio.StreamWriter) -> bool:
        """A stream with usage, which may be cut or slow; whether the connection goes on."""
        writer.write(head)
        for number in range(8):
            writer.write(chunk({"choices": [{"index": 0, "delta": {"content": f"word {number} "}}]}))
            if fault == "reset-body" and number == 4:
                return _reset(writer)
            await writer.drain()
            if fault in ("trickle", "client-leaves"):
                await asyncio.sleep(0.02)
        output = self._dice.randint(1, _OUTPUT_TOKENS)
        self.told_tokens += 100 + output
        writer.write(chunk({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": output}}))
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        await writer.drain()
        return True


def _reset(writer: asyncio.StreamWriter) -> bool:
    """End a connection with a reset."""
    found: socket.socket = writer.get_extra_info("socket")
    found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    return False


async def _call(path: str, dice: random.Random) -> int:
    """One call of a client, one in seven of which leaves early; the status that came, or 0."""
    leaves = dice.random() < 1 / 7
    reader, writer = await asyncio.open_unix_connection(path)
    try:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(_BODY)}\r\n\r\n"
        writer.write(head.encode() + _BODY)
        first = await reader.read(200 if leaves else 1 << 16)
        if not leaves:
            await reader.read()
        return int(first[9:12]) if first.startswith(b"HTTP/1.1 ") else 0
    except ConnectionError:
        return 0
    finally:
        writer.close()


def files_of(pid: int) -> int:
    """How many files a process has open, connections among them; 0 where root alone may look into a daemon."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except PermissionError:
        assert os.geteuid() != 0
        return 0


def soak(home: Path, calls: int, seed: int) -> dict[str, Any]:
    """Run the calls; what was found when all was over. `limit` is such that no call is refused for it."""

    async def run() -> dict[str, Any]:
        day = BadDay(seed)
        server = await asyncio.start_server(day.serve, "127.0.0.1", 0, backlog=256)
        port = server.sockets[0].getsockname()[1]
        limit = calls * (len(_BODY) + _OUTPUT_TOKENS) * 2
        (home / "grants.toml").write_text(_GRANTS.format(port=port, limit=limit))
        (home / "config").mkdir()
        (home / "config/egressd.toml").write_text(_SETTINGS)
        async with server:
            return await asyncio.to_thread(_through, home, calls, seed, day, limit)

    return asyncio.run(run())


def _through(home: Path, calls: int, seed: int, day: BadDay, limit: int) -> dict[str, Any]:
    with running(home, "memoryd", "brokerd", "egressd") as box:
        path = _opened(box)
        pid = box.pid("egressd")
        asyncio.run(_all(path, 2 * _AT_ONCE, random.Random(seed + 1)))
        before, begun = files_of(pid), rss_kib(pid)
        statuses = asyncio.run(_all(path, calls, random.Random(seed)))
        deadline = time.monotonic() + 20
        while ((after := files_of(pid)) > before or _open_rows(home)) and time.monotonic() < deadline:
            time.sleep(0.1)
        booked = box.ask("owner-egress", egress.Usage(), egress.UsageReply).rows
        found = {
            "drawn": day.drawn,
            "statuses": statuses,
            "files": (before, after),
            "rss_kib": (begun, rss_kib(pid)),
            "rows": sum(row.calls for row in booked),
            "open_rows": _open_rows(home),
            "ids": _distinct(home),
        }
        # The last of all: it is a call itself.
        return {**found, "room": _room(box, path, limit), "log": box.log("egressd")}


def _opened(box: Box) -> str:
    box.open_session(SESSION, "soak")
    return str(own.opened(box, SESSION, destination="soak", harness=None))


async def _all(path: str, calls: int, dice: random.Random) -> collections.Counter[int]:
    """Every call, so many at once; how often each status came."""
    found: collections.Counter[int] = collections.Counter()
    left = iter(range(calls))

    async def worker() -> None:
        for _ in left:
            found[await _call(path, dice)] += 1

    await asyncio.gather(*(worker() for _ in range(_AT_ONCE)))
    return found


def _select(home: Path, sql: str) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{home}/state/egressd/usage.sqlite3?mode=ro", uri=True)) as books:
        return int(books.execute(sql).fetchone()[0])


def _open_rows(home: Path) -> int:
    return _select(home, "SELECT count(*) FROM calls WHERE ended IS NULL")


def _distinct(home: Path) -> int:
    return _select(home, "SELECT count(DISTINCT call) FROM calls")


def _room(box: Box, path: str, limit: int) -> int:
    """The status of a call that fits only if nothing is still reserved: 403 if something is."""
    spent = _select(box.home, "SELECT coalesce(sum(counted_tokens), 0) FROM calls")
    left = limit - spent - 1_000
    body = _BODY.replace(b'"max_tokens":40', b'"max_tokens":%d' % left)
    return own.exchange(Path(path), own.request("/v1/chat/completions", body)).status


def main(arguments: list[str]) -> int:
    """Run a soak and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args(arguments)
    home = Path(tempfile.mkdtemp(prefix="bx"))
    try:
        found = soak(home, options.calls, options.seed)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    log = found.pop("log")
    print(f"soak            {options.calls:,} calls, seed {options.seed}: {dict(found['drawn'])}")
    for name, value in found.items():
        print(f"                {name} {value}")
    return int("Traceback" in log)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
