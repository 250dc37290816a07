"""The event loop that a daemon runs on: libuv's, in which a wait may be cancelled as its bytes arrive.

anyio's Unix sockets have the loop call `set_result` of a future when there is something to read. When the wait is
cancelled in that very step, the future is done already, and the loop writes a traceback to standard error. The bytes
stay in the socket, so that there is nothing to do.
"""

import asyncio
from collections.abc import Callable
from types import BuiltinMethodType
from typing import Any

import uvloop


class Loop(uvloop.Loop):
    """What `anyio.run` is given as `loop_factory`."""

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        """Call back whenever there is something to read, but no future that is done."""
        if isinstance(callback, BuiltinMethodType):
            callback, args = _unless_done, (callback, *args)
        super().add_reader(fd, callback, *args)

    def add_writer(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        """Call back whenever something can be written, but no future that is done."""
        if isinstance(callback, BuiltinMethodType):
            callback, args = _unless_done, (callback, *args)
        super().add_writer(fd, callback, *args)


def _unless_done(callback: BuiltinMethodType, *args: Any) -> None:
    of = callback.__self__
    if not (isinstance(of, asyncio.Future) and of.done()):
        callback(*args)
