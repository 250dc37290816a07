"""Streams of a fake provider, for measuring what stands between: a fast upstream, and a client that times each token.

The upstream answers OpenAI chat completions with `events` chunks, `gap_ms` apart, each with the time at which it was
written (seconds of the monotonic clock, which all processes of a machine share), and a usage at the end.
`python -m tests.bench.streams --port N` runs it alone.
"""

import argparse
import asyncio
import json
import re
import time
from typing import Final, NamedTuple

_END: Final = b"\r\n\r\n"
_STAMP: Final = re.compile(rb'"content": ?"([0-9.]+) "')


class Target(NamedTuple):
    """Where a stream is asked for: a Unix socket or a port of loopback, the path, and further lines of the head."""

    unix: str | None
    port: int
    path: str
    headers: tuple[str, ...] = ()


class Timed(NamedTuple):
    """One stream as its client saw it, in milliseconds: to the first byte of an event, and each event's way."""

    first_ms: float
    way_ms: list[float]


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(_END)
            lines = head.lower().split(b"\r\n")
            length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
            asked = json.loads(await reader.readexactly(length) or b"{}")
            # In the message, since a gateway may pass on no other field that it does not know.
            events, gap_ms = map(float, asked["messages"][-1]["content"].split(" ")[0].split("x"))
            await _answer(writer, int(events), gap_ms)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def _answer(writer: asyncio.StreamWriter, events: int, gap_ms: float) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    for number in range(events):
        if number and gap_ms:
            await asyncio.sleep(gap_ms / 1e3)
        said = f"{time.monotonic():.6f} "
        writer.write(chunk({"choices": [{"index": 0, "delta": {"role": "assistant", "content": said}}]}))
        await writer.drain()
    writer.write(chunk({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    usage = {"prompt_tokens": 9, "completion_tokens": events, "total_tokens": events + 9}
    writer.write(chunk({"choices": [], "usage": usage}))
    data = b"data: [DONE]\n\n"
    writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data))
    await writer.drain()


def chunk(value: dict[str, object]) -> bytes:
    """A chunk of a chat completion as an event, in a chunk of HTTP."""
    shape = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "fast-1", **value}
    data = b"data: " + json.dumps(shape).encode() + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


async def stream(target: Target, events: int, gap_ms: float) -> Timed:
    """Ask for one stream on a new connection and read it whole.

    Raises:
        AssertionError: the answer is not the whole stream.

    """
    body = json.dumps({
        "model": "fast-1", "stream": True, "stream_options": {"include_usage": True}, "max_tokens": events,
        "messages": [{"role": "user", "content": f"{events}x{gap_ms:g} " + "word " * 400}],
    }).encode()  # fmt: skip
    began = time.monotonic()
    opening = (
        asyncio.open_unix_connection(target.unix) if target.unix else asyncio.open_connection("127.0.0.1", target.port)
    )
    reader, writer = await opening
    head = [f"POST {target.path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *target.headers]
    writer.write("\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body)
    received, pieces = bytearray(), []
    while not received.endswith(b"0\r\n\r\n") and b"[DONE]" not in received[-64:]:
        piece = await reader.read(1 << 16)
        assert piece, bytes(received[:500])
        received += piece
        pieces.append((len(received), time.monotonic()))
    writer.close()
    assert received.startswith(b"HTTP/1.1 200"), bytes(received[:500])
    came = [(_came_at(pieces, found.end()), float(found[1])) for found in _STAMP.finditer(received)]
    assert len(came) == events, (len(came), events)
    return Timed((came[0][0] - began) * 1e3, [(now - sent) * 1e3 for now, sent in came])


def _came_at(pieces: list[tuple[int, float]], offset: int) -> float:
    """When the byte before an offset had come."""
    return next(time_s for end, time_s in pieces if end >= offset)


def serve(port: int) -> None:
    """Run the upstream until interrupted."""

    async def main() -> None:
        async with await asyncio.start_server(_serve, "127.0.0.1", port, backlog=2_048) as server:
            await server.serve_forever()

    asyncio.run(main())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    serve(parser.parse_args().port)
