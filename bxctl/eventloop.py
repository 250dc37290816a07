"""An event loop for what must wait for several things at once; it ends cleanly on a signal, and with one exception."""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from proto.role.loop import Loop


def run(function: Callable[..., Awaitable[int]], *arguments: Any) -> int:
    """Run a coroutine function to its end; what it raised comes alone, not in a group of one."""
    try:
        return anyio.run(function, *arguments, backend_options={"loop_factory": Loop})
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


@asynccontextmanager
async def until(*signals: signal.Signals) -> AsyncIterator[None]:
    """A block that is cancelled, and left as if it had ended, when one of the signals comes."""

    async def watch() -> None:
        with anyio.open_signal_receiver(*signals) as received:
            async for _ in received:
                tasks.cancel_scope.cancel()
                return

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        yield
        tasks.cancel_scope.cancel()
