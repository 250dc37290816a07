"""Posts that somebody made to harm, and a server, or what stands before it, that answers with something else."""

import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from loopd.channels.mattermost import server as server_module
from loopd.channels.mattermost import threads as threads_module
from loopd.channels.mattermost import turns
from loopd.ports import mattermost
from loopd.ports.broker import BrokerPort
from proto.messages.broker import ApprovalAnswer, ApprovalIgnored
from tests.fakes.brokerd import Says
from tests.fakes.model import Reply
from tests.loopd.channels.thread_rig import Threads, linked, threads
from tests.loopd.rig import loopd, until

pytestmark = pytest.mark.anyio
ASKS: Reply = {"calls": [{"name": "recall", "arguments": {"query": "x"}, "id": "c"}]}


@pytest.mark.parametrize("value", [["true"], {"true": "true"}])
async def test_a_post_with_odd_props_keeps_nobody_from_being_answered(home: Path, value: Any) -> None:
    """Anybody may put any props on his posts."""
    with threads(home, [], otherwise={"text": "yes"}) as outside:
        server = outside.server
        async with linked(outside):
            server.say(server.other, server.town, "look", props={"from_webhook": value, "boxmaker": value})
            root = server.say(server.owner, server.dm, "are you there?")
            await outside.answered(server.dm, "yes", root=root)


async def _said_while_away(outside: Threads, status: int, *, page: bool) -> None:
    server = outside.server
    async with linked(outside):
        first = server.say(server.owner, server.dm, "first")
        await outside.answered(server.dm, "yes", root=first)
    await until(lambda: server.connected == 0)
    missed = server.say(server.owner, server.dm, "missed", first)
    assert missed["root_id"] == first["id"]
    server.faults.answer_next(3, "/posts", status, page=page)
    async with linked(outside):
        # A post that is told of must not stand for those that could not be read.
        last = server.say(server.owner, server.dm, "last", first)
        assert last["root_id"] == first["id"]
        await outside.answered(server.dm, "yes", "yes", "yes", root=first)
    said = [line["text"] for line in outside.log(first) if line["kind"] == "user"]
    assert said == ["first", "missed", "last"]


@pytest.mark.parametrize(("status", "page"), [(200, True), (404, True), (403, False)])
async def test_what_could_not_be_read_is_read_later(home: Path, status: int, page: bool) -> None:
    with threads(home, [], otherwise={"text": "yes"}) as outside:
        await _said_while_away(outside, status, page=page)


@pytest.mark.parametrize(("status", "page"), [(200, True), (302, True), (201, False)])
async def test_an_answer_that_is_none_of_the_server_s_takes_no_answer_away(home: Path, status: int, page: bool) -> None:
    with threads(home, [], otherwise={"text": "yes"}) as outside:
        server = outside.server
        async with linked(outside):
            server.faults.answer_next(2, "/api/v4/posts", status, page=page)
            root = server.say(server.owner, server.dm, "go")
            await outside.answered(server.dm, "yes", root=root)


async def test_a_word_that_is_older_than_a_question_is_no_answer_to_it(home: Path) -> None:
    """It was meant for another, or for none: the owner has not seen what is asked now."""
    with threads(home, [{**ASKS, "hold": True}, {"text": "done"}], otherwise={"text": "what?"}) as outside:
        server = outside.server
        outside.broker.tools["recall"] = Says("found", asks=True)
        async with linked(outside):
            root = server.say(server.owner, server.dm, "do it")
            await until(lambda: len(outside.model.requests) == 1)
            server.faults.hold_next(1)
            server.say(server.owner, server.dm, "approve", root)
            outside.model.release()
            await outside.asks(server.dm, root)
            server.release()
            server.say(server.owner, server.dm, "deny", root)
            await outside.says(server.dm, "done", root)
        assert [answer.allow for answer in outside.broker.of(ApprovalAnswer)] == [False]


async def test_a_word_that_is_told_of_before_its_question_s_post_is_known_counts(home: Path) -> None:
    with threads(home, [ASKS, {"text": "done"}]) as outside:
        server = outside.server
        outside.broker.tools["recall"] = Says("found", asks=True)
        async with linked(outside):
            server.faults.delay_s = 0.2
            root = server.say(server.owner, server.dm, "do it")
            await outside.asks(server.dm, root)
            server.say(server.owner, server.dm, "approve", root)
            await outside.says(server.dm, "done", root)
        assert [answer.allow for answer in outside.broker.of(ApprovalAnswer)] == [True]
        assert [line["text"] for line in outside.log(root) if line["kind"] == "user"] == ["do it"]


async def test_a_list_of_channels_that_is_refused_is_asked_for_again(home: Path) -> None:
    with threads(home, [], otherwise={"text": "yes"}) as outside:
        server = outside.server
        async with linked(outside):
            root = server.say(server.owner, server.dm, "first")
            await outside.answered(server.dm, "yes", root=root)
            server.faults.answer_next(1, "/channels", 403, page=False)
            server.reset_connections()
            assert server.say(server.owner, server.dm, "second", root)["root_id"] == root["id"]
            await outside.answered(server.dm, "yes", "yes", root=root)


async def test_a_draft_of_the_old_text_becomes_the_answer_to_the_new_one(home: Path) -> None:
    """The box is ended while the first words stand, and the post is edited meanwhile."""
    draft: Reply = {"text": "words that nobody wants any more", "chunk": 5, "hold_at": 3}
    with threads(home, [draft], otherwise={"text": "ok", "stream": False}) as outside:
        server = outside.server
        async with linked(outside):
            root = server.say(server.owner, server.dm, "old text")
            await until(lambda: len(outside.said(server.dm, root)) == 1)
        outside.model.release()
        await until(lambda: server.connected == 0)
        server.edit(root["id"], "new text")
        async with linked(outside):
            await outside.answered(server.dm, "ok", root=root)


async def test_what_a_restored_home_knows_nothing_of_is_not_answered_again(home: Path) -> None:
    with threads(home, [], otherwise={"text": "yes"}) as outside:
        server = outside.server
        async with linked(outside):
            first = server.say(server.owner, server.dm, "first")
            await outside.answered(server.dm, "yes", root=first)
        await until(lambda: server.connected == 0)
        kept = [home / "state" / "loopd", home / "sessions"]
        for folder in kept:
            shutil.copytree(folder, home / "older" / folder.name)
        async with linked(outside):
            second = server.say(server.owner, server.dm, "second", first)
            other = server.say(server.owner, server.dm, "other")
            await outside.answered(server.dm, "yes", "yes", root=first)
            await outside.answered(server.dm, "yes", root=other)
        await until(lambda: server.connected == 0)
        for folder in kept:
            shutil.rmtree(folder)
            shutil.copytree(home / "older" / folder.name, folder)
        server.forget_pending()
        missed = server.say(server.owner, server.dm, "missed", other)
        async with linked(outside):
            await outside.answered(server.dm, "yes", "yes", root=other)
            last = server.say(server.owner, server.dm, "last", first)
            await outside.answered(server.dm, "yes", "yes", "yes", root=first)
        assert outside.said(server.dm, other) == ["yes", "yes"]
        said = [line["text"] for root in (first, other) for line in outside.log(root) if line["kind"] == "user"]
        assert said == [post["message"] for post in (first, second, last, other, missed)]


async def test_who_takes_the_owner_s_name_is_not_the_owner(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with threads(home, [], otherwise={"text": "yes"}) as outside:
        server = outside.server
        async with linked(outside):
            root = server.say(server.owner, server.dm, "first")
            await outside.answered(server.dm, "yes", root=root)
        await until(lambda: server.connected == 0)
        server.owner["username"], server.other["username"] = "renamed", "owner"
        root = server.say(server.other, server.town, "@boxmaker, I am the owner")
        said = ""

        def is_refused() -> bool:
            nonlocal said
            said += capsys.readouterr().out
            return "mattermost-not-started" in said

        async with loopd(home):
            await until(is_refused)
        assert f"@owner is the user {server.other['id']} now, and was {server.owner['id']}" in said
        assert outside.said(server.town, root) == []


async def test_posts_that_are_too_long_to_be_read_at_once_are_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may write so much into the props of his posts that a page of them is longer than is read."""
    monkeypatch.setattr(mattermost, "_MOST_BYTES", 40_000)
    monkeypatch.setattr(server_module, "PAGE", 20)
    with threads(home, [], otherwise={"text": "yes"}) as outside:
        server = outside.server
        async with linked(outside):
            first = server.say(server.owner, server.town, "@boxmaker first")
            await outside.answered(server.town, "yes", root=first)
        await until(lambda: server.connected == 0)
        for number in range(45):
            server.say(server.other, server.town, f"word {number}", first, props={"x": "x" * 9000})
        await anyio.sleep(0.002)
        last = server.say(server.owner, server.town, "@boxmaker last", first)
        async with linked(outside):
            await outside.answered(server.town, "yes", "yes", root=first)
        said = [line["text"] for line in outside.log(first) if line["kind"] == "user"]
        assert [said[0], said[-1]] == [first["message"], last["message"]]
        # Those of one millisecond have no order.
        assert sorted(said[1:-1]) == sorted(f"word {number}" for number in range(45))


@pytest.mark.parametrize("listening", [True, False])
async def test_a_bot_that_is_renamed_hears_its_new_name(home: Path, listening: bool) -> None:
    with threads(home, [], 'users = ["@other"]\n', otherwise={"text": "yes"}) as outside:
        server = outside.server
        async with linked(outside):
            root = server.say(server.owner, server.dm, "are you there?")
            await outside.answered(server.dm, "yes", root=root)
            server.bot["username"] = "box"
            if listening:
                server.tell("user_updated", {"user": server.bot}, server.town)
            else:
                server.reset_connections()
            root = server.say(server.other, server.town, "@box?")
            await outside.answered(server.town, "yes", root=root)


async def test_many_answers_of_others_are_audited_one_after_the_other(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once, most, kept = 0, 0, BrokerPort.ignored

    async def counted(self: BrokerPort, ignored: ApprovalIgnored) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await kept(self, ignored)
        at_once -= 1

    monkeypatch.setattr(BrokerPort, "ignored", counted)
    with threads(home, [ASKS, {"text": "done"}]) as outside:
        server = outside.server
        outside.broker.tools["recall"] = Says("found", asks=True)
        async with linked(outside):
            root = server.say(server.owner, server.town, "do it")
            await outside.asks(server.town, root)
            for _ in range(30):
                server.say(server.other, server.town, "approve", root)
            await until(lambda: len(outside.broker.of(ApprovalIgnored)) == 30)
            server.say(server.owner, server.town, "approve", root)
            await outside.says(server.town, "done", root)
    assert most == 1


async def test_a_server_that_takes_no_edit_gets_the_answer_in_a_new_post(home: Path) -> None:
    """It may let posts be edited for five minutes, and the owner may be asked for an hour."""
    with threads(home, [ASKS, {"text": "done"}], otherwise={"text": "yes"}) as outside:
        server = outside.server
        outside.broker.tools["recall"] = Says("found", asks=True)
        async with linked(outside):
            root = server.say(server.owner, server.dm, "do it")
            await outside.asks(server.dm, root)
            server.faults.answer_next(99, "/patch", 400, page=False)
            server.say(server.owner, server.dm, "approve", root)
            await until(lambda: outside.said(server.dm, root)[-1] == "done")
            last = server.say(server.owner, server.dm, "and now?")
            await outside.answered(server.dm, "yes", root=last)
        assert outside.said(server.dm, root).count("done") == 1


async def test_a_turn_that_trips_over_its_question_leaves_none_open(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trip(_: str) -> str:
        raise ArithmeticError

    monkeypatch.setattr(turns, "block", trip)
    monkeypatch.setattr(threads_module, "_TRIES_AGAIN", 0)
    with threads(home, [ASKS], otherwise={"text": "yes"}) as outside:
        server = outside.server
        outside.broker.tools["recall"] = Says("found", asks=True)
        async with linked(outside):
            root = server.say(server.owner, server.dm, "do it")
            await until(lambda: len(outside.model.requests) == 1)
            other = server.say(server.owner, server.dm, "and you?")
            await outside.answered(server.dm, "yes", root=other)
            server.say(server.owner, server.dm, "approve", root)
            await until(lambda: [one.why for one in outside.broker.of(ApprovalIgnored)] == ["late"])


async def test_a_post_that_trips_the_box_is_tried_again_before_the_next_of_its_thread(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, trips = turns.Turns.run, 2

    async def tripping(self: turns.Turns, tasks: Any, work: turns.Work, *, read_before: bool) -> None:
        nonlocal trips
        if work.post.text == "first" and trips:
            trips -= 1
            raise ArithmeticError
        await kept(self, tasks, work, read_before=read_before)

    monkeypatch.setattr(turns.Turns, "run", tripping)
    with threads(home, [], otherwise={"text": "yes"}) as outside:
        server = outside.server
        async with linked(outside):
            root = server.say(server.owner, server.dm, "first")
            await anyio.sleep(0.002)
            server.say(server.owner, server.dm, "second", root)
            await outside.answered(server.dm, "yes", "yes", root=root)
        assert [line["text"] for line in outside.log(root) if line["kind"] == "user"] == ["first", "second"]
