"""Runs the programs of a plan: all started at once, ready when every probe answers, restarted when one dies, and
stopped in reverse order when the block is left, by whatever way.
"""

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from typing import Final

import anyio
import anyio.abc

from bxctl.supervise import log as logs
from bxctl.supervise import tie
from bxctl.supervise.plan import Plan, Probe, Program
from proto.faults import Fault
from proto.messages.wire import Ok, Ping
from proto.role import durable
from proto.role.call import call

READY_SECONDS: Final = 90.0
STOP_SECONDS: Final = 15.0
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 30.0
_STEADY_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.03
_LONGEST_LINE_BYTES: Final = 1 << 20
_KEPT_LINES: Final = 3


@asynccontextmanager
async def running(plan: Plan, log: logs.Log) -> AsyncIterator["Processes"]:
    """The programs of a plan, ready; stopped when the block ends.

    Raises:
        Fault: `start-failed`: one of them ended before it was ready, or was not ready in time. None is left running.

    """
    if plan.rendered:
        durable.replace(plan.rendered[0], plan.rendered[1].encode())
    processes = Processes(plan.programs, log)
    async with anyio.create_task_group() as tasks:
        for program in plan.programs:
            tasks.start_soon(processes.keep, program)
        try:
            await processes.ready()
            yield processes
        finally:
            with anyio.CancelScope(shield=True):
                await processes.stop()


class Processes:
    """The programs of one box while they run."""

    def __init__(self, programs: tuple[Program, ...], log: logs.Log) -> None:
        self._programs = programs
        self._log = log
        self._running: dict[str, anyio.abc.Process] = {}
        self._last_lines: dict[str, list[str]] = {program.name: [] for program in programs}
        self._scopes: list[anyio.CancelScope] = []
        self._failed: str | None = None
        self._all_ready = False
        self._stopping = False

    async def keep(self, program: Program) -> None:
        """Run a program, again and again once all were ready; end when it ends before that, or when all is stopped.

        A cancellation from outside is for the block that uses the programs; they end by `stop`, and its signals, alone.
        """
        with anyio.CancelScope(shield=True) as scope:
            self._scopes.append(scope)
            await self._keep(program)

    async def _keep(self, program: Program) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while not self._stopping:
            began = anyio.current_time()
            code = await self._run(program)
            if self._stopping:
                return
            if not self._all_ready:
                self._failed = self._failed or self._why(program.name, code)
                return
            if anyio.current_time() - began > _STEADY_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            self._log.own(f"{program.name} ended ({_ending(code)}); it is started again in {pause:g} s", "warning")
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def ready(self) -> None:
        """Wait until every probe answers.

        Raises:
            Fault: `start-failed`.

        """
        waiting = [program.name for program in self._programs]
        with anyio.move_on_after(READY_SECONDS):
            for program in self._programs:
                for probe in program.probes:
                    await self._answers(probe)
                waiting.remove(program.name)
        if waiting:
            raise Fault("start-failed", f"{waiting[0]} did not answer within {READY_SECONDS:g} s")
        self._all_ready = True

    async def stop(self) -> None:
        """End the programs by SIGTERM, the last started first; by SIGKILL what does not end in time."""
        self._stopping = True
        await self._end_all()
        for scope in self._scopes:
            scope.cancel()

    async def _end_all(self) -> None:
        for program in reversed(self._programs):
            process = self._running.get(program.name)
            if process is None or process.returncode is not None:
                continue
            with suppress(ProcessLookupError):
                process.terminate()
            with anyio.move_on_after(STOP_SECONDS):
                await process.wait()
            if process.returncode is None:
                self._log.own(f"{program.name} did not end in {STOP_SECONDS:g} s and is killed", "warning")
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    @property
    def pids(self) -> dict[str, int]:
        """The process ids of what runs now."""
        return {name: process.pid for name, process in self._running.items() if process.returncode is None}

    async def _run(self, program: Program) -> int:
        """Run a program to its end, its lines into the log; its exit code."""
        command = (sys.executable, "-I", "-S", str(Path(tie.__file__)), str(os.getpid()), *program.command)
        async with await anyio.open_process(
            command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, env=program.environ, start_new_session=True
        ) as process:
            self._running[program.name] = process
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, program.name, process)
                code = await process.wait()
                # What it began itself, a worker perhaps, would go on without it, and hold its end of the pipe.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            return code

    async def _read(self, name: str, process: anyio.abc.Process) -> None:
        """Put a process's lines into the log until it has closed them."""
        assert process.stdout is not None  # noqa: S101  (it was asked for)
        async for line in _lines(process.stdout):
            entry = logs.read(line)
            self._log.entry(name, entry)
            self._last_lines[name] = [*self._last_lines[name], entry.text][-_KEPT_LINES:]

    async def _answers(self, probe: Probe) -> None:
        """Wait until a probe answers, or a program has failed."""
        while not await _is_ready(probe):
            if self._failed:
                raise Fault("start-failed", self._failed)
            await anyio.sleep(_POLL_SECONDS)
        if self._failed:
            raise Fault("start-failed", self._failed)

    def _why(self, name: str, code: int) -> str:
        said = "\n".join(f"  {line}" for line in self._last_lines[name])
        return f"{name} ended before it was ready ({_ending(code)}):\n{said}"


async def _lines(stream: anyio.abc.ByteReceiveStream) -> AsyncIterator[bytes]:
    """The lines of a stream without their line feeds; one that is too long comes in pieces."""
    rest = b""
    async for piece in stream:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line
        if len(rest) > _LONGEST_LINE_BYTES:
            yield rest
            rest = b""
    if rest:
        yield rest


async def _is_ready(probe: Probe) -> bool:
    try:
        if probe.protocol == "frames":
            await call(probe.path, Ping(), Ok, timeout_s=2.0)
            return True
        return await _healthy(probe.path)
    except (Fault, OSError, TimeoutError, anyio.EndOfStream, anyio.BrokenResourceError):
        return False


async def _healthy(path: Path) -> bool:
    """Whether `GET /health` on a Unix socket is answered 200."""
    with anyio.fail_after(2.0):
        async with await anyio.connect_unix(path) as connection:
            await connection.send(b"GET /health HTTP/1.1\r\nHost: model\r\nConnection: close\r\n\r\n")
            return (await connection.receive()).startswith(b"HTTP/1.1 200 ")


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
