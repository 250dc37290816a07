"""Calls at once below a limit of spend, many of them cut by their clients, with the real brokerd. `--calls N`.

The upstream obeys the request's maximum and answers less, as dice say, and keeps its own books: what it gave is what may
not pass the limit, by not one token.
"""

import argparse
import json
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
import anyio.abc

from proto import sockets
from proto.messages import egress
from tests.e2e.box import Box, running

SESSIONS: Final = ("chat-limits-1", "chat-limits-2", "chat-limits-3")
MOST_OUTPUT: Final = 200
BODY: Final = json.dumps(
    {"model": "dice-1", "stream": True, "max_tokens": MOST_OUTPUT, "messages": [{"role": "user", "content": "x" * 80}]}
).encode()
RESERVED: Final = len(BODY) + MOST_OUTPUT
"""What a call reserves."""
_GRANTS: Final = """\
[destinations.dice]
base_url = "http://127.0.0.1:{port}"
credential = "DICE_KEY"

[spend.dice]
day_tokens = {limit}
"""


class Found(NamedTuple):
    """What came of it: tokens by the upstream's own books, calls by status, the usage that egressd tells."""

    limit: int
    given: int
    statuses: dict[int, int]
    rows: list[egress.UsageRow]
    seconds: float

    @property
    def told(self) -> int:
        """The tokens of the rows."""
        return sum((row.input_tokens or 0) + (row.output_tokens or 0) for row in self.rows)

    def __str__(self) -> str:
        """A line."""
        calls = sum(row.calls for row in self.rows)
        return (
            f"spend: {calls} calls at once, a third of them cut: {self.given:,} of {self.limit:,} tokens given"
            f" ({self.given / self.limit:.1%}), {self.told:,} told, {self.seconds:.1f} s"
        )


class Dice:
    """The upstream: an answer of some tokens, in pieces, with its usage at the end."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self.given = 0

    async def serve(self, stream: anyio.abc.SocketStream) -> None:
        """Answer one call to its end."""
        async with stream:
            head = await _whole(stream)
            if head is None:
                return
            asked = json.loads(head)
            prompt, output = self._dice.randint(1, len(head)), self._dice.randint(1, asked["max_tokens"])
            self.given += prompt + output
            usage = {"prompt_tokens": prompt, "completion_tokens": output}
            pieces = [_event({"choices": [{"delta": {"content": "x" * 20}}]}) for _ in range(self._dice.randint(1, 6))]
            last = _event({"model": "dice-1", "choices": [], "usage": usage}) + b"data: [DONE]\n\n"
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            for piece in [*pieces, last]:
                await anyio.sleep(self._dice.random() / 200)
                await stream.send(piece)


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


async def _whole(stream: anyio.abc.SocketStream) -> bytes | None:
    """The body of a request."""
    data = b""
    while True:
        head, found, body = data.partition(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        if found and len(body) >= int(lengths[0].split(b":")[1]):
            return body
        try:
            data += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return None


async def _call(home: Path, session: str, leaves_after: int | None, statuses: dict[int, int]) -> None:
    """One call; a client that leaves does so after some bytes of the answer, or before any."""
    path = sockets.socket("loop-egress").at(home)
    head = f"POST /dice/v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Boxmaker-Session: {session}\r\n"
    async with await anyio.connect_unix(path) as stream:
        await stream.send(f"{head}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY)
        raw = b""
        while leaves_after is None or len(raw) < leaves_after:
            try:
                raw += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                break
    if raw.startswith(b"HTTP/1.1 "):
        status = int(raw[9:12])
        statuses[status] = statuses.get(status, 0) + 1


async def _all(box: Box, calls: int, seed: int, reservations: int) -> Found:
    dice = Dice(seed)
    limit = reservations * RESERVED
    statuses: dict[int, int] = {}
    chance = random.Random(seed)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as serving:
        serving.start_soon(listener.serve, dice.serve)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        box.write("grants.toml", _GRANTS.format(port=port, limit=limit))
        began = time.monotonic()
        async with anyio.create_task_group() as tasks:
            for number in range(calls):
                leaves_after = chance.choice([0, 1, 150]) if number % 3 == 0 else None
                tasks.start_soon(_call, box.home, SESSIONS[number % len(SESSIONS)], leaves_after, statuses)
        rows = await _settled(box, calls)
        found = Found(limit, dice.given, statuses, rows, time.monotonic() - began)
        serving.cancel_scope.cancel()
    return found


async def _settled(box: Box, calls: int) -> list[egress.UsageRow]:
    """The rows, once each call has one that is settled, or after half a minute."""
    rows: list[egress.UsageRow] = []
    with anyio.move_on_after(30):
        while sum(row.calls for row in rows) < calls:
            await anyio.sleep(0.02)
            ask = box.ask
            rows = (await anyio.to_thread.run_sync(ask, "owner-egress", egress.Usage(), egress.UsageReply)).rows
    return rows


def measure(home: Path, calls: int, seed: int, reservations: int = 40) -> Found:
    """Run so many calls at once below a limit of so many reservations."""
    with running(home, "brokerd", "egressd", environ={"DICE_KEY": "sk-dice-0123456789"}) as box:
        for session in SESSIONS:
            box.open_session(session, "dice", "key")
        return anyio.run(_all, box, calls, seed, reservations)


def main(words: list[str] | None = None) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args(words)
    home = Path(tempfile.mkdtemp(prefix="bx"))
    try:
        print(measure(home, asked.calls, asked.seed))
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
