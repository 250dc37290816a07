"""brokerd's end of a policy worker: start one with modules, ask it, end it. It is held by nobody while a call runs."""

import itertools
import json
from collections.abc import Sequence
from typing import Any, Final

from proto.role.worker import Worker as Process
from proto.role.worker import WorkerLost

__all__ = ["LoadRefused", "Worker", "WorkerLost"]

_MODULE: Final = "brokerd.policy.worker"
_LOAD_SECONDS: Final = 15.0


class LoadRefused(Exception):
    """The worker cannot load the modules; the message says why."""


class Worker:
    """A running worker. Asked by one at a time (`inforce` sees to that)."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._numbers = itertools.count(1)

    @classmethod
    async def start(cls, modules: Sequence[tuple[str, str]]) -> "Worker":
        """A new worker with these modules loaded.

        Raises:
            LoadRefused: they do not load.
            WorkerLost: loading them ended the worker, or took too long.

        """
        worker = cls(await Process.start(_MODULE))
        reply = await worker._exchange({"modules": [list(module) for module in modules]}, _LOAD_SECONDS)
        if reply.get("problem") is not None:
            await worker.end()
            raise LoadRefused(str(reply["problem"]))
        return worker

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def ask(self, entrypoint: str, term: str, timeout_s: float) -> str | None:
        """The engine's answer to an input as JSON text; None for an error or undefined.

        Raises:
            WorkerLost: there was none; the worker has been ended.

        """
        number = next(self._numbers)
        reply = await self._exchange({"ask": number, "entrypoint": entrypoint, "term": term}, timeout_s)
        answer = reply.get("answer")
        if reply.get("ask") != number or not isinstance(answer, str | None):
            await self.end()
            raise WorkerLost("the worker answered another question")
        return answer

    async def end(self) -> None:
        """End the worker, whatever it is doing."""
        await self._process.end()

    async def _exchange(self, message: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """One question and its answer; on any failure, a cancelled caller too, the worker is ended."""
        answer = await self._process.ask(json.dumps(message, ensure_ascii=False).encode(), timeout_s)
        try:
            value = json.loads(answer)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            await self.end()
            raise WorkerLost("the worker answered nonsense")
        return value
