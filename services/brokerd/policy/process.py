"""brokerd's end of a worker: start one with modules, ask it, end it. It is held by nobody while a call runs."""

import itertools
import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

import anyio
import anyio.abc

from brokerd.policy import pipe

_LOAD_SECONDS: Final = 15.0
_LARGEST_ANSWER_BYTES: Final = 1 << 20


class WorkerLost(Exception):
    """The worker ended, did not answer in time, or answered nonsense; it is no longer there."""


class LoadRefused(Exception):
    """The worker cannot load the modules; the message says why."""


class Worker:
    """A running worker. Asked by one at a time (`inforce` sees to that)."""

    def __init__(self, process: subprocess.Popen[bytes], stream: anyio.abc.SocketStream) -> None:
        self._process = process
        self._stream = stream
        self._numbers = itertools.count(1)

    @classmethod
    async def start(cls, modules: Sequence[tuple[str, str]]) -> "Worker":
        """A new worker with these modules loaded.

        Raises:
            LoadRefused: they do not load.
            WorkerLost: loading them ended the worker, or took too long.

        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            command = [sys.executable, "-I", "-m", "brokerd.policy.worker", str(theirs.fileno())]
            try:
                # In place, a few milliseconds: a worker ends with the thread that started it (PR_SET_PDEATHSIG).
                process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)  # noqa: ASYNC220
            except OSError as error:
                ours.close()
                raise WorkerLost(f"no worker can be started: {error.strerror}") from None
        try:
            worker = cls(process, await anyio.abc.SocketStream.from_socket(ours))
        except BaseException:
            process.kill()
            process.wait()
            raise
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
        self._process.kill()
        with anyio.CancelScope(shield=True):
            await self._stream.aclose()
            await anyio.to_thread.run_sync(self._process.wait)

    async def _exchange(self, message: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """One question and its answer; on any failure, a cancelled caller too, the worker is ended."""
        try:
            with anyio.fail_after(timeout_s):
                await self._stream.send(pipe.pack(message))
                return await self._receive()
        except TimeoutError:
            await self.end()
            raise WorkerLost(f"no answer within {timeout_s:g} s") from None
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, ValueError):
            await self.end()
            raise WorkerLost("the worker ended") from None
        except BaseException:
            await self.end()
            raise

    async def _receive(self) -> dict[str, Any]:
        buffer = bytearray(await self._stream.receive())
        while len(buffer) < pipe.LENGTH.size:
            buffer += await self._stream.receive()
        length: int = pipe.LENGTH.unpack(buffer[: pipe.LENGTH.size])[0]
        if length > _LARGEST_ANSWER_BYTES:
            raise ValueError("the answer is too large")
        while len(buffer) < pipe.LENGTH.size + length:
            buffer += await self._stream.receive()
        value = json.loads(buffer[pipe.LENGTH.size :])
        if not isinstance(value, dict):
            raise ValueError("the answer is not a map")  # noqa: TRY004  (one kind of nonsense)
        return value
