"""A daemon's end of a worker: start one, ask it, end it. The other end is `role.confined`.

A worker runs a module of the installed package (`python -I -m`): no file of the folder that the daemon runs in, and
nothing that the environment names, is ever imported.
"""

import os
import socket
import subprocess
import sys
from typing import Final

import anyio
import anyio.abc

from proto.role.confined import LENGTH

_LARGEST_ANSWER_BYTES: Final = 16 << 20
_PASSED_ON: Final = ("PATH", "LD_LIBRARY_PATH")
"""Of the environment: what starts the interpreter. Not the keys that may stand there."""


class WorkerLost(Exception):
    """The worker ended, did not answer in time, or answered nonsense; it is no longer there."""


class Worker:
    """A running worker. Asked by one at a time."""

    def __init__(self, process: subprocess.Popen[bytes], stream: anyio.abc.SocketStream) -> None:
        self._process = process
        self._stream = stream

    @classmethod
    async def start(cls, module: str) -> "Worker":
        """A new worker that runs a module.

        Raises:
            WorkerLost: there can be none.

        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            command = [sys.executable, "-I", "-m", module, str(theirs.fileno()), str(os.getpid())]
            environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
            try:
                # In place, a few milliseconds: a worker ends with the thread that started it (PR_SET_PDEATHSIG).
                process = subprocess.Popen(  # noqa: ASYNC220
                    command,
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    env=environment,
                )
            except OSError as error:
                ours.close()
                raise WorkerLost(f"no worker can be started: {error.strerror}") from None
        try:
            return cls(process, await anyio.abc.SocketStream.from_socket(ours))
        except BaseException:
            process.kill()
            process.wait()
            raise

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def ask(self, request: bytes, timeout_s: float) -> bytes:
        """The answer to a request.

        Raises:
            WorkerLost: there was none; the worker has been ended, as it is when the caller is cancelled.

        """
        try:
            with anyio.fail_after(timeout_s):
                await self._stream.send(LENGTH.pack(len(request)) + request)
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

    async def end(self) -> None:
        """End the worker, whatever it is doing."""
        self._process.kill()
        with anyio.CancelScope(shield=True):
            await self._stream.aclose()
            await anyio.to_thread.run_sync(self._process.wait)

    async def _receive(self) -> bytes:
        header = await self._exactly(bytearray(), LENGTH.size)
        length: int = LENGTH.unpack(header[: LENGTH.size])[0]
        if length > _LARGEST_ANSWER_BYTES:
            raise ValueError("the answer is too large")
        return bytes(await self._exactly(header[LENGTH.size :], length))

    async def _exactly(self, buffer: bytearray, count: int) -> bytearray:
        """At least so many bytes; there is one answer, so that what comes belongs to it."""
        while len(buffer) < count:
            buffer += await self._stream.receive()
        return buffer
