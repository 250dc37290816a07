"""On the loop that the daemons run on, a future that is done already is not set once more."""

import asyncio
import socket
from typing import Any

import pytest

from proto.role.loop import Loop

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("writes", [False, True])
async def test_a_future_that_is_done_is_left_as_it_is_and_anything_else_is_called(writes: bool) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    problems: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: problems.append(context))
    watch, unwatch = (loop.add_writer, loop.remove_writer) if writes else (loop.add_reader, loop.remove_reader)
    one, two = socket.socketpair()
    with one, two:
        two.send(b"there is something to read")
        done, called = loop.create_future(), asyncio.Event()
        watch(one.fileno(), done.set_result, 1)
        assert await done == 1
        await asyncio.sleep(0.01)  # it is ready still, and called of again and again
        watch(one.fileno(), called.set)
        await called.wait()
        unwatch(one.fileno())
    assert problems == []
