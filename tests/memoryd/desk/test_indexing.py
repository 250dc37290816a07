"""Whatever one log does to its reader, the others are read and the daemon goes on."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from memoryd.acts import recall
from memoryd.desk.indexing import Indexing
from proto.tools import RecallArguments
from tests.memoryd.box import Box, note
from tests.memoryd.daemon import user

pytestmark = pytest.mark.anyio


async def _found(box: Box, query: str) -> str:
    return recall.recall(box.holdings, "chat-q", RecallArguments(query=query)).text


@pytest.fixture
def hostile(box: Box, monkeypatch: pytest.MonkeyPatch) -> Box:
    """A box with three logs, of which one ends whoever reads it."""
    for session in ("chat-a", "chat-bad", "chat-c"):
        box.log(session, user(f"apple of {session}"))
    index = box.holdings.index

    def failing(of: Callable[..., Any]) -> Callable[..., Any]:
        def read(*args: Any) -> Any:
            if "chat-bad" in args or of == index_catch_up:
                raise RecursionError("maximum recursion depth exceeded")
            return of(*args)

        return read

    index_catch_up = index.catch_up
    monkeypatch.setattr(index, "catch_up", failing(index.catch_up))
    monkeypatch.setattr(index, "session_updated", failing(index.session_updated))
    return box


async def test_a_log_that_ends_its_reader_is_named_and_the_others_are_read(
    hostile: Box, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile.call(note("a pear"))
    indexing = Indexing(hostile.holdings)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(indexing.run)
        await indexing.caught_up()
        assert indexing.is_ready
        await indexing.read_log("chat-bad")
        hostile.log("chat-c", user("a plum"))
        await indexing.read_log("chat-c")
        tasks.cancel_scope.cancel()
    assert "apple of chat-a" in await _found(hostile, "apple")
    assert "apple of chat-c" in await _found(hostile, "apple")
    assert "a plum" in await _found(hostile, "plum")
    assert "a pear" in await _found(hostile, "pear")
    assert "chat-bad" in capsys.readouterr().out


async def test_notes_that_end_their_reader_leave_the_daemon_alone(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise RecursionError

    indexing = Indexing(box.holdings)
    box.call(note("a pear"))
    async with anyio.create_task_group() as tasks:
        with monkeypatch.context() as patched:
            patched.setattr(box.holdings.index, "sync_notes", failing)
            tasks.start_soon(indexing.run)
            await indexing.caught_up()
        await indexing.caught_up()
        tasks.cancel_scope.cancel()
    assert "a pear" in await _found(box, "pear")
