"""Relaying without a daemon: a break is no end, what stands behind an answer, a label that rises with brokerd's yes."""

import asyncio
import io
import socket
import ssl
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest

from egressd import relay
from egressd.config import Relay
from egressd.flights import Flights
from egressd.meter.openai_chat import OpenAiChat
from egressd.wire.redact import Redactor
from egressd.wire.warm import Warm
from proto.faults import Fault
from proto.labels import DataClass
from proto.messages.broker import EgressAsk, EgressDecision
from tests.egressd import http

pytestmark = pytest.mark.anyio


class Client:
    """Takes what it is sent."""

    def __init__(self) -> None:
        self.got = b""

    async def send(self, data: bytes) -> None:
        self.got += data


class Breaking:
    """An upstream that sends a piece, and whose connection breaks."""

    def __init__(self, piece: bytes) -> None:
        self._pieces = [piece]

    async def receive(self, _: float) -> bytes:
        if not self._pieces:
            raise anyio.BrokenResourceError
        return self._pieces.pop()


_BEGUN = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: half of "


@pytest.mark.parametrize(("piece", "raised"), [(_BEGUN, relay.Garbled), (b"HTTP/1.1 200 ", Fault)])
async def test_a_connection_that_breaks_is_no_end(piece: bytes, raised: type[Exception]) -> None:
    answer, client = http.relayed(OpenAiChat(), Redactor()), Client()
    with pytest.raises(raised):
        await relay._download(cast("Any", Breaking(piece)), cast("Any", client), answer, Relay())
    assert not answer.complete
    assert not client.got.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("lines", [10, 3_000])
async def test_what_stands_behind_an_answer_ends_its_connection(lines: int) -> None:
    answer, client = http.relayed(OpenAiChat(), Redactor()), Client()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1900\r\n"
    first = head + b"X-Pad: " + b"p" * (relay._PORTION_BYTES - len(head) - 1911) + b"\r\n\r\n" + b"x" * 1900
    assert len(first) == relay._PORTION_BYTES
    await relay._pass(first, cast("Any", client), answer)
    assert answer.complete
    answer, client = http.relayed(OpenAiChat(), Redactor()), Client()
    # The other half of the second is still to come.
    second = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (2 * lines) + b"\n" * lines
    await relay._pass(first + second, cast("Any", client), answer)
    assert answer.complete
    assert not answer.reusable
    assert http.parse(client.got).body == b"x" * 1900


async def test_of_a_call_whose_label_rises_with_brokerds_yes_nothing_is_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    flights, answered = Flights(), asyncio.get_running_loop().create_future()
    target = SimpleNamespace(tls=True, host="api.example.org", port=443, unix=None)
    place = SimpleNamespace(name="up", ceiling=DataClass.PRIVATE, target=target)

    async def ask(_: EgressAsk) -> EgressDecision:
        return cast("EgressDecision", await answered)

    async def look_up(*_: object, **__: object) -> Any:
        done.append("looked up")
        raise socket.gaierror

    monkeypatch.setattr("anyio._core._sockets.getaddrinfo", look_up)
    destinations: Any = SimpleNamespace(find=lambda _: place)
    shared = relay.Relaying(Relay(), destinations, ssl.create_default_context(), flights, ask, Warm(1.0))
    asked = EgressAsk(session="chat-a", call="c", destination="up", method="POST", path="/")
    call = relay.Call(asked, io.BytesIO(b""), 0, cast("Any", place))
    answer = http.relayed(OpenAiChat(), Redactor())

    async def run() -> None:
        with pytest.raises(Fault) as caught:
            await relay.relay(call, cast("Any", Client()), answer, shared, lambda _: done.append("left"))
        done.append(caught.value.code)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        answered.set_result(
            EgressDecision(allow=True, reasons=[], message="", class_=DataClass.PRIVATE, untrusted=False, domain=None)
        )
        assert await flights.label_rises("chat-a", DataClass.SECRET) == 1
    assert done == ["ceiling"]
