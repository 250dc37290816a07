"""Frames of a server: however they are divided and cut, the same messages come out, with the token masked."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wsproto.frame_protocol import FrameProtocol, Opcode

from egressd.config import Mattermost
from egressd.mattermost.frames import Garbage, Messages
from egressd.wire.redact import Redactor

TOKEN = "t0ken" * 5
texts = st.lists(st.sampled_from([TOKEN, "t0ken", "t", "ü", "{}", "x" * 200]), max_size=6).map("".join)
messages = st.tuples(st.sampled_from(["text", "binary", "ping", "pong"]), texts)


def frames(kind: str, text: str, cuts: list[int]) -> bytes:
    """A message as a server sends it, divided at some places."""
    server = FrameProtocol(client=False, extensions=[])
    if kind in ("ping", "pong"):
        payload = text.encode()[:120]
        return bytes(server.ping(payload) if kind == "ping" else server.pong(payload))
    places = sorted({min(cut, len(text)) for cut in cuts})
    parts = [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
    out = bytearray()
    for number, part in enumerate(parts):
        out += server.send_data(part if kind == "text" else part.encode(), fin=number == len(parts) - 1)
    return bytes(out)


def passing_on(most_bytes: int = 100) -> Messages:
    """The server's direction, with the token masked."""
    mask = Redactor(TOKEN.encode()).whole
    return Messages(mask, mask, most_bytes)


def read(data: bytes) -> list[tuple[Opcode, bytes]]:
    """What a client reads."""
    client = FrameProtocol(client=True, extensions=[])
    client.receive_bytes(data)
    found: list[tuple[Opcode, bytes]] = []
    for frame in client.received_frames():
        assert frame.frame_finished and frame.message_finished
        payload = frame.payload
        assert isinstance(payload, str | bytes | bytearray)
        found.append((frame.opcode, payload.encode() if isinstance(payload, str) else bytes(payload)))
    return found


@settings(max_examples=60)
@pytest.mark.measured
@given(st.lists(st.tuples(messages, st.lists(st.integers(0, 40), max_size=3)), max_size=5), st.integers(1, 50))
def test_messages_come_out_whole_and_masked_however_they_came(
    sent: list[tuple[tuple[str, str], list[int]]], size: int
) -> None:
    data = b"".join(frames(kind, text, cuts) for (kind, text), cuts in sent)
    passing = passing_on(1 << 20)
    out = b"".join(passing.feed(data[at : at + size]) for at in range(0, len(data), size))
    kinds = {"text": Opcode.TEXT, "binary": Opcode.BINARY, "ping": Opcode.PING, "pong": Opcode.PONG}
    expected = []
    for (kind, text), _ in sent:
        payload = text.encode()[:120] if kind in ("ping", "pong") else text.encode()
        expected.append((kinds[kind], payload.replace(TOKEN.encode(), b"*" * len(TOKEN))))
    assert read(out) == expected
    assert TOKEN.encode() not in out


def test_a_control_frame_between_the_parts_of_a_message_comes_at_once() -> None:
    server = FrameProtocol(client=False, extensions=[])
    passing = passing_on()
    assert passing.feed(bytes(server.send_data("a", fin=False))) == b""
    assert read(passing.feed(bytes(server.ping(b"?")))) == [(Opcode.PING, b"?")]
    assert read(passing.feed(bytes(server.send_data("b", fin=True)))) == [(Opcode.TEXT, b"ab")]


@pytest.mark.parametrize(("code", "reason"), [(1001, f"bye {TOKEN}"), (1000, ""), (None, None)])
def test_the_close_passes_with_its_code(code: int | None, reason: str | None) -> None:
    passing = passing_on()
    out = passing.feed(bytes(FrameProtocol(client=False, extensions=[]).close(code, reason)))
    plain = bytes(FrameProtocol(client=False, extensions=[]).close(code, reason and reason.replace(TOKEN, "*" * 25)))
    assert out == plain


@pytest.mark.parametrize(
    "data",
    [
        b"\x81\xfe\x00\x01", b"\xc1\x01a", b"\x83\x00", b"\x81\x01\xff", b"\x89\x7e\x00\x80", b"\x80\x01a", b"\x09\x00",
        b"\x01\x01a\x81\x01b", b"\x81\x7f" + b"\xff" * 8, b"\x88\x01\x03", b"\x88\x02\x03\xe7",
    ],
)  # fmt: skip
def test_what_is_no_websocket_goes_no_further(data: bytes) -> None:
    with pytest.raises(Garbage):
        passing_on().feed(data)


@pytest.mark.parametrize("fin", [True, False])
def test_a_message_may_be_so_long_and_no_longer(fin: bool) -> None:
    passing = passing_on()
    server = FrameProtocol(client=False, extensions=[])
    assert read(passing.feed(bytes(server.send_data("x" * 100, fin=True)))) == [(Opcode.TEXT, b"x" * 100)]
    with pytest.raises(Garbage):
        passing.feed(bytes(server.send_data("x" * 101, fin=fin)))


def test_what_a_client_says_is_masked_as_a_clients_and_looked_at() -> None:
    def message(data: bytes) -> bytes:
        if b"no" in data:
            raise Garbage("no")
        return data

    client, passing = FrameProtocol(client=True, extensions=[]), Messages(message, bytes, 100, of_client=True)
    out = b"".join(
        passing.feed(bytes(data))
        for data in (client.send_data("y", fin=False), client.ping(b"?"), client.send_data("es", fin=True))
    )
    server = FrameProtocol(client=False, extensions=[])
    server.receive_bytes(out)
    assert [(frame.opcode, frame.payload) for frame in server.received_frames()] == [
        (Opcode.PING, bytearray(b"?")), (Opcode.TEXT, "yes"),
    ]  # fmt: skip
    with pytest.raises(Garbage):
        passing.feed(bytes(client.send_data("n", fin=False)) + bytes(client.send_data("o", fin=True)))


def test_the_longest_post_that_a_server_takes_passes() -> None:
    """800,000 characters of props, each of seven bytes in the JSON of a post that is a text in the JSON of an event."""
    event = json.dumps({"post": json.dumps({"props": {"x": "<" * 800_000}}).replace("<", r"\u003c")})
    ((_, passed),) = read(passing_on(Mattermost().message_bytes).feed(frames("text", event, [])))
    assert len(passed) == len(event) > 5_600_000
