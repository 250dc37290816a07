"""A session's own socket for tunnels: the real `Tunnels` behind a Unix socket, with everything around it of the test's
choice.

Features: decides as the test says, calls back before it answers, or lets the label rise amid it; names lead to chosen addresses; keeps what was
booked and logged; a refusal before the 200 is answered as the session's desk answers it; can raise the session's label, close the
session, and be reached over TCP through a relay, as from a sandbox.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import structlog

from egressd.config import Relay, Tunnel
from egressd.destinations import Destinations
from egressd.flights import Flights
from egressd.tunnel import TunnelBegun, Tunnels, TunnelSettled
from egressd.wire.door import Client, Gone
from egressd.wire.refusal import refusal
from proto.faults import Fault
from proto.labels import DataClass
from proto.messages.broker import EgressAsk, EgressDecision
from proto.role import clock
from proto.role.listen import listen
from proto.role.loop import Loop
from proto.role.raw import Raw
from proto.role.serve import serve_clients

SESSION = "run-tunnel-1"


class Door:
    """A running door; `home` holds its grants.toml and its socket."""

    def __init__(self, home: Path, limits: Tunnel) -> None:
        self.path = home / "run" / "s.sock"
        self.asked: list[EgressAsk] = []
        self.denied: list[str] = []
        self.fails: Fault | None = None
        self.before_answer: Callable[[EgressAsk], None] | None = None
        self.rises_at = 0
        self.addresses: list[str] = ["127.0.0.1"]
        self.looked_up: list[str] = []
        self.begun: list[TunnelBegun] = []
        self.settled: list[TunnelSettled] = []
        self.errors: list[Exception] = []
        self.lines: Sequence[Mapping[str, Any]] = []
        self.open = 0
        self._home = home
        self._flights = Flights()
        self._tunnels = Tunnels(
            limits=limits,
            destinations=Destinations(home),
            flights=self._flights,
            ask=self._ask,
            booking=self,
            clock=clock.now,
            resolver=self._resolve,
        )
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    def begin(self, tunnel: TunnelBegun) -> None:
        """Keep a beginning."""
        self.begun.append(tunnel)

    def settle(self, tunnel: TunnelSettled) -> None:
        """Keep an end."""
        self.settled.append(tunnel)

    def raise_label(self, class_: DataClass) -> int:
        """The session's label rises; how many tunnels were closed."""
        return int(self._within(self._flights.label_rises, SESSION, class_))

    def close_session(self) -> None:
        """The session is closed."""

        async def close() -> None:
            self._tunnels.close(SESSION)

        self._within(close)

    def stop(self) -> None:
        """Serve no more."""
        self._loop.call_soon_threadsafe(self._scope.cancel)
        self._thread.join(10)

    def connect(self) -> socket.socket:
        """A connection from the session."""
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(10)
        client.connect(str(self.path))
        return client

    @contextmanager
    def over_tcp(self) -> Iterator[int]:
        """A loopback port that leads to the socket, as a sandbox's relay gives it."""
        with socket.create_server(("127.0.0.1", 0)) as listening:
            threading.Thread(target=self._accept, args=(listening,), daemon=True).start()
            try:
                yield listening.getsockname()[1]
            finally:
                listening.shutdown(socket.SHUT_RDWR)

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._relay, args=(listening.accept()[0],), daemon=True).start()

    def _relay(self, outside: socket.socket) -> None:
        with outside, self.connect() as inside:
            back = threading.Thread(target=_carry, args=(inside, outside), daemon=True)
            back.start()
            _carry(outside, inside)
            back.join()

    def _within(self, act: Callable[..., Any], *arguments: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(act(*arguments), self._loop).result(10)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        with anyio.CancelScope() as self._scope:
            listening = listen(self.path)
            self._ready.set()
            await serve_clients(listening, "egress", self._connection)

    async def _connection(self, stream: Raw) -> None:
        self.open += 1
        try:
            async with stream:
                await self._answer(stream)
        except Exception as error:  # noqa: BLE001  (the test looks at them)
            self.errors.append(error)
        finally:
            self.open -= 1

    async def _answer(self, stream: Raw) -> None:
        client = Client(stream, Relay(), self._home)
        try:
            head = await client.head()
            await self._tunnels.run(head, client.http, stream, SESSION, "up")
        except Gone:
            return
        except Fault as fault:
            await client.send(refusal(client.http, fault))

    async def _ask(self, request: EgressAsk) -> EgressDecision:
        self.asked.append(request)
        if self.before_answer is not None:
            self.before_answer(request)
        if len(self.asked) == self.rises_at:
            await self._rise_amid()
        if self.fails is not None:
            raise self.fails
        return EgressDecision(
            allow=not self.denied,
            reasons=self.denied or ["within-ceiling"],
            message="",
            class_=DataClass.PRIVATE,
            untrusted=False,
            domain="dom-me",
        )

    async def _rise_amid(self) -> None:
        """The label rises, and the answer comes in the same moment."""
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope(shield=True):
                tasks.start_soon(self._flights.label_rises, SESSION, DataClass.SECRET)
                await anyio.sleep(0.01)
                tasks.cancel_scope.cancel()

    async def _resolve(self, host: str, port: int) -> list[str]:
        self.looked_up.append(host)
        if not self.addresses:
            raise OSError("no such name")
        return self.addresses


def _carry(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def session_door(home: Path, limits: Tunnel) -> Iterator[Door]:
    """A door for a block; nothing failed in it, and nothing is left open."""
    with structlog.testing.capture_logs() as lines:
        door = Door(home, limits)
        door.lines = lines
        try:
            yield door
        finally:
            door.stop()
    assert door.errors == []
    assert door.open == 0
    assert [one.call for one in door.begun] == [one.call for one in sorted(door.settled, key=door_order(door))]


def door_order(door: Door) -> Callable[[TunnelSettled], int]:
    """The order in which tunnels began."""
    begun = [one.call for one in door.begun]
    return lambda settled: begun.index(settled.call)
