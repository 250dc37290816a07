"""Whatever breaks, between loopd and the server or in loopd itself: each post is handled once, in order."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from proto.messages.broker import ApprovalIgnored, ToolRequest
from tests.e2e.box import Box
from tests.fakes.brokerd import Says
from tests.fakes.model import Reply
from tests.loopd.channels.breaking import soak
from tests.loopd.channels.thread_rig import linked, threads
from tests.loopd.rig import loopd, until

pytestmark = pytest.mark.anyio
ASKS: Reply = {"calls": [{"name": "recall", "arguments": {"query": "x"}, "id": "c"}]}


async def test_two_hundred_breaks_and_each_post_is_handled_once_in_order(home: Path) -> None:
    soaked = await soak(home, posts=60, breaks=200)
    assert soaked.breaks == 200
    assert soaked.heard == soaked.said
    assert {thread: len(answers) for thread, answers in soaked.answered.items()} == {
        thread: len(said) for thread, said in soaked.said.items()
    }


async def test_an_answer_whose_making_was_not_told_is_not_made_again(home: Path) -> None:
    with threads(home, [{"text": "once"}]) as outside:
        server = outside.server
        async with linked(outside):
            root = server.say(server.owner, server.dm, "go")
            await until(lambda: len(outside.model.requests) == 1)
            server.faults.lose_answer_next(3)
            await outside.answered(server.dm, "once", root=root)
            other = server.say(server.owner, server.dm, "else")
            await until(lambda: len(outside.said(server.dm, other)) == 1)
        assert outside.said(server.dm, root) == ["once"]


@pytest.mark.parametrize("form", ["seconds", "epoch"])
async def test_too_many_requests_are_waited_for(home: Path, form: str) -> None:
    with threads(home, [{"text": "patience"}]) as outside:
        server = outside.server
        async with linked(outside):
            server.faults.limit_next(4, form, 0)  # type: ignore[arg-type]
            root = server.say(server.owner, server.dm, "go")
            await outside.answered(server.dm, "patience", root=root)


async def test_a_connection_that_is_half_open_is_given_up_and_nothing_is_lost(home: Path) -> None:
    pace = "edit_every_s = 0.02\nreconnect_most_s = 0.05\nping_s = 0.1\n"
    with threads(home, [{"text": "heard"}], pace=pace) as outside:
        server = outside.server
        async with linked(outside):
            server.faults.silent = True
            root = server.say(server.owner, server.dm, "into the void")
            await anyio.sleep(0.1)
            server.faults.silent = False
            server.faults.answer_pings = False
            await until(lambda: outside.said(server.dm, root) == ["heard"])


async def test_a_token_that_is_refused_for_a_while(home: Path) -> None:
    with threads(home, [{"text": "back"}]) as outside:
        server = outside.server
        async with linked(outside):
            server.faults.refuse_token = True
            server.reset_connections()
            root = server.say(server.owner, server.dm, "anybody?")
            await anyio.sleep(0.2)
            server.faults.refuse_token = False
            await outside.answered(server.dm, "back", root=root)


async def test_a_server_that_is_not_there_at_the_start_is_waited_for(home: Path) -> None:
    with threads(home, [{"text": "late"}]) as outside:
        server = outside.server
        server.faults.fail_next(6, 503)
        async with linked(outside):
            root = server.say(server.owner, server.dm, "hello")
            await outside.answered(server.dm, "late", root=root)


async def test_an_owner_whom_the_server_does_not_know_yet_is_asked_for_again(home: Path) -> None:
    with threads(home, [{"text": "hello"}]) as outside:
        server = outside.server
        server.owner["username"] = "somebody"
        async with loopd(home):
            await until(lambda: sum("username/owner" in asked for asked in outside.gateway.asked) > 1)
            server.owner["username"] = "owner"
            await until(lambda: server.connected > 0)
            root = server.say(server.owner, server.dm, "here I am")
            await outside.answered(server.dm, "hello", root=root)


async def test_a_reaction_that_came_while_nobody_listened_is_taken(home: Path) -> None:
    with threads(home, [ASKS, {"text": "done"}]) as outside:
        server = outside.server
        outside.broker.tools["recall"] = Says("found", asks=True)
        async with linked(outside):
            root = server.say(server.owner, server.dm, "do it")
            await outside.asks(server.dm, root)
            question = next(post for post in server.posts(server.dm, root) if "recall?" in post["message"])
            server.faults.refuse_upgrade = 502
            server.reset_connections()
            await until(lambda: server.connected == 0)
            server.react(server.owner, question["id"], "+1")
            server.faults.refuse_upgrade = 0
            await outside.says(server.dm, "done", root)


@contextmanager
def daemon(home: Path) -> Iterator[Box]:
    """A process of its own."""
    box = Box(home).start("loopd")
    try:
        yield box
    finally:
        box.stop()


@pytest.mark.kill
async def test_killed_in_the_middle_of_a_turn_it_is_answered_once(home: Path) -> None:
    script: list[Reply] = [{"text": "never kept", "hold": True}, {"text": "the answer"}]
    with threads(home, script) as outside, daemon(home) as box:
        server = outside.server
        await until(lambda: server.connected == 1)
        root = server.say(server.owner, server.dm, "go")
        await until(lambda: len(outside.model.requests) == 1)
        box.kill("loopd")
        box.start("loopd")
        await outside.answered(server.dm, "the answer", root=root)
        await until(lambda: [line["kind"] for line in outside.log(root)] == ["user", "assistant"])
        assert outside.model.requests[0].body == outside.model.requests[1].body


@pytest.mark.kill
async def test_killed_while_the_owner_is_asked_it_goes_on_and_is_answered_once(home: Path) -> None:
    with threads(home, [ASKS, {"text": "the answer"}]) as outside, daemon(home) as box:
        server = outside.server
        outside.broker.tools["recall"] = Says("found", asks=True)
        await until(lambda: server.connected == 1)
        root = server.say(server.owner, server.dm, "go")
        await outside.asks(server.dm, root)
        box.kill("loopd")
        box.start("loopd")
        await until(lambda: "the answer" in outside.said(server.dm, root))
        assert len(outside.broker.of(ToolRequest)) == 1
        server.say(server.owner, server.dm, "approve", root)
        await until(lambda: [one.why for one in outside.broker.of(ApprovalIgnored)] == ["late"])


@pytest.mark.kill
async def test_killed_again_and_again_each_post_is_answered_once(home: Path) -> None:
    slow: Reply = {"text": "an answer of some words", "chunk": 4, "gap_s": 0.01}
    with threads(home, [], otherwise=slow) as outside, daemon(home) as box:
        server = outside.server
        roots = []
        for number in range(3):
            await until(lambda: server.connected == 1)
            roots.append(server.say(server.owner, server.dm, f"thread {number}"))
            await anyio.sleep(0.06 * number)
            box.kill("loopd")
            await until(lambda: server.connected == 0)
            box.start("loopd")
        for root in roots:
            await outside.answered(server.dm, "an answer of some words", root=root)
            await until(lambda root=root: len(outside.log(root)) == 2)  # type: ignore[misc]
        assert len(outside.said(server.dm)) == len(roots)
