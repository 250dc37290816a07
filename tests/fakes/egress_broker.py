"""A brokerd for egressd: answers `egress_asks` over the real socket.

Features: remembers each question; allows, or denies with chosen reasons; waits before it answers; calls back before it
answers (so that a test can look at what has left by then); can be stopped.
"""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec

from proto import sockets
from proto.labels import DataClass
from proto.messages.broker import EgressAsk, EgressAsks, EgressDecision, EgressDecisions
from proto.reasons import REASONS
from proto.role.listen import listen
from proto.role.serve import Connection, Server

ROW = sockets.socket("egress-broker", "broker.sock")


class FakeBroker:
    """brokerd's decisions for one home, in a thread of their own."""

    def __init__(self, home: Path) -> None:
        self.asked: list[EgressAsk] = []
        self.reasons: list[str] = ["granted"]
        self.allow = True
        self.wait_s = 0.0
        self.before_answer: Callable[[EgressAsk], None] | None = None
        self._home = home
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    def deny(self, *reasons: str) -> None:
        """From now on deny."""
        self.allow, self.reasons = False, list(reasons)

    def stop(self) -> None:
        """Answer no more."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._scope.cancel)
        self._thread.join(10)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        with anyio.CancelScope() as self._scope:
            listening = listen(ROW.at(self._home))
            self._ready.set()
            await Server(ROW.path, ROW.answers, self._answer).serve(listening)

    async def _answer(self, request: EgressAsks, connection: Connection) -> msgspec.Struct:
        for ask in request.asks:
            self.asked.append(ask)
            if self.before_answer is not None:
                await anyio.to_thread.run_sync(self.before_answer, ask)
        await anyio.sleep(self.wait_s)
        return EgressDecisions(answers=[self._decision()] * len(request.asks))

    def _decision(self) -> EgressDecision:
        return EgressDecision(
            allow=self.allow,
            reasons=self.reasons,
            message="" if self.allow else "; ".join(REASONS.get(reason, reason) for reason in self.reasons),
            class_=DataClass.PRIVATE,
            untrusted=False,
            domain="dom-me",
        )
