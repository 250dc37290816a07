"""Frames: what is packed is decoded; what is mutated is a fault or a message, and nothing else."""

import struct
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto import frame
from proto.faults import Fault
from proto.messages import KINDS
from proto.messages.broker import ToolRequest
from proto.messages.memory import MemoryCall
from proto.messages.wire import Ok, Ping
from tests.proto.samples import SAMPLES

_ALL = frame.Decoder(KINDS.values())
_REQUEST = {"session": "chat-a", "call": "1", "tool": "recall", "arguments": {"query": "x"}}


def _code(body: bytes) -> str:
    with pytest.raises(Fault) as caught:
        _ALL.decode(body)
    return caught.value.code


@given(st.sampled_from(sorted(KINDS)), st.data())
def test_a_mutated_frame_is_a_message_or_a_fault_of_the_wire(kind: str, data: st.DataObject) -> None:
    body = bytearray(frame.pack(SAMPLES[kind])[4:])
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        message = _ALL.decode(bytes(body))
    except Fault as fault:
        code: str | None = fault.code
    else:
        code = None
        assert _ALL.decode(frame.pack(message)[4:]) == message
    assert code in (None, "frame-undecodable", "kind-unknown")


@given(st.binary(max_size=300))
def test_random_bytes_are_a_fault(body: bytes) -> None:
    assert _code(body) in ("frame-undecodable", "kind-unknown")


def test_the_order_of_keys_is_free() -> None:
    pairs = list({"kind": "tool_request", **_REQUEST}.items())
    assert _ALL.decode(msgpack.packb(dict(reversed(pairs)))) == _ALL.decode(msgpack.packb(dict(pairs)))


def test_the_inner_request_may_name_its_kind() -> None:
    call = {"kind": "memory_call", "taint": "internal", "untrusted": False}
    bare = _ALL.decode(msgpack.packb({**call, "request": _REQUEST}))
    named = _ALL.decode(msgpack.packb({**call, "request": {"kind": "tool_request", **_REQUEST}}))
    assert bare == named
    assert isinstance(bare, MemoryCall)
    assert _code(msgpack.packb({**call, "request": {"kind": "ping", **_REQUEST}})) == "frame-undecodable"


@pytest.mark.parametrize(
    "body",
    [
        b"\x82\xa4kind\xa4ping\xa4kind\xa4ping",
        msgpack.packb({"kind": "ping"}) + b"\xc0",
        msgpack.packb({"kind": "ping", "more": 1}),
        msgpack.packb({"kind": 1}),
        msgpack.packb({}),
        msgpack.packb([1]),
        b"\x81\xa4kind",
        msgpack.packb({"kind": "tool_request", **_REQUEST, "arguments": {"at": msgpack.Timestamp(1)}}),
        msgpack.packb({"kind": "tool_request", **_REQUEST, "arguments": {"n": float("nan")}}),
        msgpack.packb({"kind": "tool_request", **_REQUEST, "arguments": {"b": b"bytes"}}),
        msgpack.packb({"kind": "tool_request", **_REQUEST, "call": "c\n"}),
        b"\x91" * 100_000 + b"\xc0",
    ],
)
def test_what_is_undecodable(body: bytes) -> None:
    assert _code(body) == "frame-undecodable"


def test_arguments_nested_too_deep_are_refused() -> None:
    deep: Any = 1
    for _ in range(40):
        deep = [deep]
    assert _code(msgpack.packb({"kind": "tool_request", **_REQUEST, "arguments": {"x": deep}})) == "frame-undecodable"


def test_a_kind_of_another_socket_is_unknown_here() -> None:
    with pytest.raises(Fault) as caught:
        frame.Decoder([Ping]).decode(frame.pack(Ok())[4:])
    assert caught.value.code == "kind-unknown"


def test_a_message_over_the_limit_is_not_packed() -> None:
    with pytest.raises(Fault) as caught:
        frame.pack(msgspec.convert({**_REQUEST, "arguments": {"query": "x" * frame.MAX_FRAME}}, ToolRequest))
    assert caught.value.code == "frame-too-large"


@pytest.mark.parametrize(("length", "code"), [(0, "frame-empty"), (frame.MAX_FRAME + 1, "frame-too-large")])
def test_lengths_that_are_refused(length: int, code: str) -> None:
    with pytest.raises(Fault) as caught:
        frame.body_length(struct.pack(">I", length))
    assert caught.value.code == code
