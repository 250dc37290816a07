"""loopd ended before and after each step that leaves something behind: the next start answers once.

The steps are the writes of the ledger and of the log, and the calls that make and change posts; the end is an exception
that nothing catches, so that nothing after it is done.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopd.channels.mattermost.ledger import Ledger
from loopd.channels.mattermost.server import Server
from loopd.session.store import Store
from tests.fakes.brokerd import Says
from tests.fakes.model import Reply
from tests.loopd.channels.thread_rig import linked, threads
from tests.loopd.rig import until

pytestmark = pytest.mark.anyio
ASKS: Reply = {"calls": [{"name": "recall", "arguments": {"query": "x"}, "id": "c"}]}
STEPS: tuple[tuple[type[Any], str], ...] = (
    (Ledger, "put"),
    (Ledger, "keep"),
    (Store, "create"),
    (Store, "append"),
    (Server, "create"),
    (Server, "edit"),
)


class Killed(BaseException):
    """The end of the process."""


def killing(
    monkeypatch: pytest.MonkeyPatch, owner: type[Any], name: str, count: int, *, after: bool
) -> Callable[[], bool]:
    """Let the `count`th call end the process; whether it has."""
    kept, calls = getattr(owner, name), 0

    def due() -> bool:
        nonlocal calls
        calls += 1
        return calls == count

    def plain(*arguments: Any) -> Any:
        end = due()
        if end and not after:
            raise Killed
        result = kept(*arguments)
        if end:
            raise Killed
        return result

    async def asynchronous(*arguments: Any) -> Any:
        end = due()
        if end and not after:
            raise Killed
        result = await kept(*arguments)
        if end:
            raise Killed
        return result

    monkeypatch.setattr(owner, name, asynchronous if owner is Server else plain)
    return lambda: calls >= count


@pytest.mark.parametrize(("count", "after"), [(1, False), (1, True), (2, True)])
@pytest.mark.parametrize(("owner", "name"), STEPS)
async def test_ended_at_a_step_the_post_is_answered_once(
    home: Path, monkeypatch: pytest.MonkeyPatch, owner: type[Any], name: str, count: int, after: bool
) -> None:
    answer: Reply = {"text": "the answer in words", "chunk": 4, "gap_s": 0.01}
    with threads(home, [{"text": "first", "when": "the first"}], otherwise=answer) as outside:
        server = outside.server
        outside.broker.tools["recall"] = Says("found")
        async with linked(outside):
            root = server.say(server.owner, server.dm, "the first")
            await outside.answered(server.dm, "first", root=root)
        with monkeypatch.context() as patch:
            ended = killing(patch, owner, name, count, after=after)
            try:
                async with linked(outside):
                    server.say(server.owner, server.dm, "the second", root)
                    other = server.say(server.owner, server.dm, "elsewhere")
                    texts = ["first", "the answer in words"]
                    await until(lambda: ended() or outside.said(server.dm, root) == texts)
                    await until(lambda: ended() or outside.said(server.dm, other) == texts[1:])
            except BaseExceptionGroup as group:
                if group.subgroup(Killed) is None:
                    raise
        await until(lambda: server.connected == 0)
        # The server knows for a while only that two requests for a post were one.
        server.forget_pending()
        async with linked(outside):
            await outside.answered(server.dm, *texts, root=root)
            await outside.answered(server.dm, *texts[1:], root=other)
            last = server.say(server.owner, server.dm, "the last", root)
            assert last["root_id"] == root["id"]
            await until(lambda: len(outside.said(server.dm, root)) == 3)
        said = [line["text"] for line in outside.log(root) if line["kind"] == "user"]
        assert said == ["the first", "the second", "the last"]
        assert [line["text"] for line in outside.log(other) if line["kind"] == "user"] == ["elsewhere"]
        assert outside.said(server.dm, other) == texts[1:]
