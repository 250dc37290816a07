"""Threads over real sockets: each post of the owner is a turn in its thread's session, answered there once."""

from pathlib import Path

import anyio
import pytest

from proto.labels import DataClass, Label
from proto.messages.broker import ApprovalAnswer, ApprovalIgnored, SessionLabel, SessionOpen
from tests.fakes.brokerd import Says
from tests.fakes.model import Reply
from tests.loopd.channels.thread_rig import linked, threads
from tests.loopd.rig import until

pytestmark = pytest.mark.anyio
ASKS: Reply = {"calls": [{"name": "recall", "arguments": {"query": "x"}, "id": "c"}]}


async def test_a_post_is_answered_in_its_thread(home: Path) -> None:
    with threads(home, [{"text": "Good morning to you."}]) as outside:
        async with linked(outside):
            post = outside.server.say(outside.server.owner, outside.server.dm, "good morning")
            await outside.answered(outside.server.dm, "Good morning to you.", root=post)
            (answer,) = outside.server.posts(outside.server.dm, post)
            assert answer["props"]["boxmaker"] == f"mm-{post['id']}/{post['id']}/1"
            await until(lambda: outside.world.memory.updated == [f"mm-{post['id']}"])
        assert outside.log(post) == [
            {"kind": "user", "text": "good morning", "author": None},
            {"kind": "assistant", "content": "Good morning to you.", "tool_calls": []},
        ]
        (opened,) = outside.broker.of(SessionOpen)
        assert (opened.session_kind, opened.principal) == ("mattermost", outside.server.owner["id"])
        assert (opened.principal_class, opened.untrusted) == (DataClass.SECRET, False)


async def test_a_thread_is_one_session_and_a_new_thread_is_a_new_one(home: Path) -> None:
    with threads(home, [{"text": "one"}, {"text": "two"}, {"text": "three"}]) as outside:
        server = outside.server
        async with linked(outside):
            first = server.say(server.owner, server.dm, "first")
            await outside.answered(server.dm, "one", root=first)
            server.say(server.owner, server.dm, "again", first)
            await outside.answered(server.dm, "one", "two", root=first)
            other = server.say(server.owner, server.dm, "elsewhere")
            await outside.answered(server.dm, "three", root=other)
        assert [line["kind"] for line in outside.log(first)] == ["user", "assistant"] * 2
        assert [line["kind"] for line in outside.log(other)] == ["user", "assistant"]


async def test_what_was_handled_is_not_handled_at_the_next_start_and_what_was_said_meanwhile_is(home: Path) -> None:
    with threads(home, [{"text": "one"}, {"text": "two"}]) as outside:
        server = outside.server
        async with linked(outside):
            first = server.say(server.owner, server.dm, "first")
            await outside.answered(server.dm, "one", root=first)
        await until(lambda: server.connected == 0)
        second = server.say(server.owner, server.dm, "second", first)
        assert second["root_id"] == first["id"]
        async with linked(outside):
            await outside.answered(server.dm, "one", "two", root=first)
        async with linked(outside):
            third = server.say(server.owner, server.dm, "third")
            await until(lambda: len(outside.said(server.dm, third)) == 1)
        assert outside.said(server.dm, first) == ["one", "two"]
        assert len(outside.model.requests) == 3


async def test_others_are_not_answered_and_what_they_said_is_read_as_untrusted(home: Path) -> None:
    with threads(home, [{"text": "It is a plan."}]) as outside:
        server = outside.server
        async with linked(outside):
            root = server.say(server.other, server.town, "What of this plan?")
            server.say(server.other, server.town, "Ignore it.", root)
            # Posts of the same millisecond have no order.
            await anyio.sleep(0.002)
            server.say(server.owner, server.town, "@boxmaker what do you say?", root)
            await outside.answered(server.town, "It is a plan.", root=root)
        said = [(line["author"], line["text"], line.get("untrusted")) for line in outside.log(root)[:3]]
        assert said == [
            ("other", "What of this plan?", True),
            ("other", "Ignore it.", True),
            (None, "@boxmaker what do you say?", None),
        ]
        (opened,) = outside.broker.of(SessionOpen)
        assert not opened.untrusted
        assert SessionLabel(session=opened.session, class_=DataClass.PRIVATE, untrusted=True) in outside.broker.requests
        assert len(outside.model.requests) == 1


async def test_a_session_that_another_begins_opens_untrusted(home: Path) -> None:
    with threads(home, [{"text": "Hello."}, {"text": "Hello, owner."}], 'users = ["@other"]\n') as outside:
        server = outside.server
        async with linked(outside):
            ignored = server.say(server.other, server.town, "hello everybody")
            root = server.say(server.other, server.town, "hello @boxmaker")
            await outside.answered(server.town, "Hello.", root=root)
            server.say(server.owner, server.town, "me too", root)
            await outside.answered(server.town, "Hello.", "Hello, owner.", root=root)
        (opened,) = outside.broker.of(SessionOpen)
        assert (opened.principal, opened.principal_class, opened.untrusted) == (
            server.other["id"],
            DataClass.PRIVATE,
            True,
        )
        assert outside.log(root)[0]["author"] == "other"
        assert outside.said(server.town, ignored) == []


@pytest.mark.parametrize(("limit", "parts"), [(16_383, 3), (4_000, 10)])
async def test_a_long_answer_is_divided_and_every_part_bears_its_number(home: Path, limit: int, parts: int) -> None:
    text = "".join(f"{number} {'word ' * 40}\n" for number in range(180))
    with threads(home, [{"text": text, "chunk": 3000, "gap_s": 0.005}]) as outside:
        server = outside.server
        server.faults.max_post_chars = limit
        async with linked(outside):
            root = server.say(server.owner, server.dm, "at length")
            await until(lambda: "".join(outside.said(server.dm, root)) == text)
        posts = server.posts(server.dm, root)
        numbers = [post["props"]["boxmaker"].rpartition("/")[2] for post in posts]
        assert numbers == [str(number) for number in range(1, parts + 1)]
        assert all(len(post["message"]) <= limit for post in posts)


@pytest.mark.parametrize(("emoji", "allowed"), [("white_check_mark", True), ("thumbsdown", False)])
async def test_an_approval_by_a_reaction_of_the_owner_alone(home: Path, emoji: str, allowed: bool) -> None:
    with threads(home, [ASKS, {"text": "done"}]) as outside:
        server = outside.server
        outside.broker.tools["recall"] = Says("found", asks=True)
        async with linked(outside):
            root = server.say(server.owner, server.town, "do it")
            await outside.asks(server.town, root)
            question = next(p for p in server.posts(server.town, root) if "recall?" in p["message"])
            server.react(server.other, question["id"], "white_check_mark")
            server.react(server.owner, question["id"], emoji)
            server.react(server.owner, question["id"], "x" if allowed else "+1")
            await until(
                lambda: outside.said(server.town, root)[-1] == "done" or "done" in outside.said(server.town, root)
            )
        (answer,) = outside.broker.of(ApprovalAnswer)
        assert (answer.allow, answer.by) == (allowed, f"mattermost {server.owner['id']}")


async def test_an_approval_by_a_word_and_a_word_that_is_late(home: Path) -> None:
    with threads(home, [ASKS, {"text": "done"}]) as outside:
        server = outside.server
        outside.broker.tools["recall"] = Says("found", asks=True)
        async with linked(outside):
            root = server.say(server.owner, server.town, "do it")
            await outside.asks(server.town, root)
            server.say(server.other, server.town, "deny", root)
            server.say(server.owner, server.town, "Approve", root)
            await outside.says(server.town, "done", root)
            server.say(server.owner, server.town, "deny", root)
            last = server.say(server.owner, server.town, "another thread")
            await until(lambda: len(outside.said(server.town, last)) == 1)
        assert [answer.allow for answer in outside.broker.of(ApprovalAnswer)] == [True]
        assert [(one.by, one.why) for one in outside.broker.of(ApprovalIgnored)] == [
            (f"mattermost {server.other['id']}", "foreign"),
            (f"mattermost {server.owner['id']}", "repeated"),
        ]
        assert [line["text"] for line in outside.log(root) if line["kind"] == "user"] == ["do it"]


async def test_the_question_mentions_nobody_and_is_no_markup(home: Path) -> None:
    with threads(home, [ASKS, {"text": "done"}]) as outside:
        server = outside.server
        outside.broker.tools["recall"] = Says("found", asks=True)
        async with linked(outside):
            root = server.say(server.owner, server.dm, "do it")
            await outside.asks(server.dm, root)
            (text,) = [text for text in outside.said(server.dm, root) if "recall?" in text]
            assert "```text\nrun recall?\n```" in text
            server.say(server.owner, server.dm, "approve", root)
            await outside.says(server.dm, "done", root)


@pytest.mark.parametrize("by_word", [True, False])
async def test_stop_ends_the_turn(home: Path, by_word: bool) -> None:
    with threads(home, [{"text": "never", "hold": True}, {"text": "next"}]) as outside:
        server = outside.server
        async with linked(outside):
            root = server.say(server.owner, server.dm, "go")
            await until(lambda: len(outside.model.requests) == 1)
            if by_word:
                server.say(server.owner, server.dm, "stop", root)
            else:
                server.react(server.owner, root["id"], "octagonal_sign")
            await until(lambda: len(outside.said(server.dm, root)) == 1)
            assert "the turn was stopped" in outside.said(server.dm, root)[0]
            server.say(server.owner, server.dm, "go on", root)
            await until(lambda: outside.said(server.dm, root)[-1] == "next")


async def test_an_edit_of_a_post_that_is_not_answered_is_taken(home: Path) -> None:
    with threads(home, [{"text": "never", "hold": True}, {"text": "to the new text"}]) as outside:
        server = outside.server
        async with linked(outside):
            root = server.say(server.owner, server.dm, "old text")
            await until(lambda: len(outside.model.requests) == 1)
            server.edit(root["id"], "new text")
            await outside.answered(server.dm, "to the new text", root=root)
            server.edit(root["id"], "too late")
            other = server.say(server.owner, server.dm, "else")
            await until(lambda: len(outside.said(server.dm, other)) == 1)
        assert [line["text"] for line in outside.log(root) if line["kind"] == "user"] == ["old text", "new text"]
        assert outside.said(server.dm, root) == ["to the new text"]


async def test_a_failed_turn_is_told_in_the_thread_and_the_thread_goes_on(home: Path) -> None:
    with threads(home, [{"status": 400, "error": {"message": "no *such* @here"}}, {"text": "well"}]) as outside:
        server = outside.server
        async with linked(outside):
            root = server.say(server.owner, server.dm, "go")
            await until(lambda: len(outside.said(server.dm, root)) == 1)
            told = outside.said(server.dm, root)[0]
            assert "refused the request" in told
            assert "\\*such\\*" in told
            assert "@here" not in told
            server.say(server.owner, server.dm, "and now?", root)
            await outside.answered(server.dm, told, "well", root=root)


async def test_a_long_output_of_a_tool_is_a_file(home: Path) -> None:
    with threads(home, [ASKS, {"text": "read it"}], "output_chars = 50\n") as outside:
        server = outside.server
        outside.broker.tools["recall"] = Says("found " * 40)
        async with linked(outside):
            root = server.say(server.owner, server.dm, "look")
            await until(lambda: len(server.posts(server.dm, root)) == 2)
        posts = server.posts(server.dm, root)
        assert posts[0]["message"] == "read it"
        assert len(posts[1]["file_ids"]) == 1
        assert posts[1]["props"]["boxmaker"].endswith("/files-1")


async def test_above_the_ceiling_of_its_channel_nothing_is_posted_and_the_post_is_done_with(home: Path) -> None:
    with threads(home, [{"text": "a secret"}]) as outside:
        server = outside.server
        outside.gateway.refuse = "ceiling"
        outside.broker.tools["recall"] = Says("x", label=Label(DataClass.SECRET, untrusted=False))
        async with linked(outside):
            root = server.say(server.owner, server.dm, "go")
            await until(lambda: any("POST /mattermost/api/v4/posts" in asked for asked in outside.gateway.asked))
            await outside.done(root)
            outside.gateway.refuse = None
            other = server.say(server.owner, server.dm, "else")
            await until(lambda: len(outside.said(server.dm, other)) == 1)
            await outside.done(other)
        async with linked(outside):
            last = server.say(server.owner, server.dm, "last")
            await until(lambda: len(outside.said(server.dm, last)) == 1)
        assert outside.said(server.dm, root) == []
        assert len(outside.model.requests) == 3


async def test_in_a_thread_that_it_is_in_what_others_say_between_is_read_and_with_thread_answered(home: Path) -> None:
    config = 'users = ["@other"]\nanswer = "thread"\n'
    with threads(home, [{"text": "one"}, {"text": "two"}], config) as outside:
        server = outside.server
        async with linked(outside):
            root = server.say(server.owner, server.town, "begin")
            await outside.answered(server.town, "one", root=root)
            server.say(server.other, server.town, "may I?", root)
            await outside.answered(server.town, "one", "two", root=root)
        users = [line for line in outside.log(root) if line["kind"] == "user"]
        assert [(line["author"], line["text"]) for line in users] == [(None, "begin"), ("other", "may I?")]


async def test_what_is_said_between_by_somebody_who_is_not_answered_is_read_with_the_next_post(home: Path) -> None:
    with threads(home, [{"text": "one"}, {"text": "two"}]) as outside:
        server = outside.server
        async with linked(outside):
            root = server.say(server.owner, server.town, "begin")
            await outside.answered(server.town, "one", root=root)
            server.say(server.other, server.town, "by the way", root)
            await anyio.sleep(0.002)
            server.say(server.owner, server.town, "go on", root)
            await outside.answered(server.town, "one", "two", root=root)
        users = [line for line in outside.log(root) if line["kind"] == "user"]
        assert [(line["author"], line["text"]) for line in users] == [
            (None, "begin"),
            ("other", "by the way"),
            (None, "go on"),
        ]


async def test_a_post_that_waits_is_said_as_it_was_edited_and_not_at_all_once_deleted(home: Path) -> None:
    with threads(home, [{"text": "one", "hold": True}, {"text": "two"}]) as outside:
        server = outside.server
        async with linked(outside):
            root = server.say(server.owner, server.dm, "begin")
            await until(lambda: len(outside.model.requests) == 1)
            waits = server.say(server.owner, server.dm, "old", root)
            gone = server.say(server.owner, server.dm, "never mind", root)
            server.edit(waits["id"], "new")
            server.delete(gone["id"])
            await anyio.sleep(0.1)
            outside.model.release()
            await outside.answered(server.dm, "one", "two", root=root)
            other = server.say(server.owner, server.dm, "else")
            await until(lambda: len(outside.said(server.dm, other)) == 1)
        assert [line["text"] for line in outside.log(root) if line["kind"] == "user"] == ["begin", "new"]


async def test_what_is_said_between_two_posts_that_wait_is_read_before_the_second(home: Path) -> None:
    with threads(home, [{"text": "one", "hold": True}, {"text": "two"}, {"text": "three"}]) as outside:
        server = outside.server
        async with linked(outside):
            root = server.say(server.owner, server.town, "begin")
            await until(lambda: len(outside.model.requests) == 1)
            for user, text in ((server.owner, "second"), (server.other, "by the way"), (server.owner, "third")):
                await anyio.sleep(0.002)
                server.say(user, server.town, text, root)
            await anyio.sleep(0.05)
            outside.model.release()
            await outside.answered(server.town, "one", "two", "three", root=root)
        users = [line["text"] for line in outside.log(root) if line["kind"] == "user"]
        assert users == ["begin", "second", "by the way", "third"]


async def test_a_thread_that_waits_for_the_owner_keeps_no_other_waiting(home: Path) -> None:
    with threads(home, [ASKS, {"text": "done"}], "turns_at_once = 1\n", otherwise={"text": "yes"}) as outside:
        server = outside.server
        outside.broker.tools["recall"] = Says("found", asks=True)
        async with linked(outside):
            root = server.say(server.owner, server.dm, "do it")
            await outside.asks(server.dm, root)
            outside.model.script.insert(0, {"text": "here"})
            other = server.say(server.owner, server.dm, "are you there?")
            await outside.answered(server.dm, "here", root=other)
            server.say(server.owner, server.dm, "approve", root)
            await outside.says(server.dm, "done", root)
            last = server.say(server.owner, server.dm, "and now?")
            await outside.answered(server.dm, "yes", root=last)


async def test_a_thread_whose_file_is_damaged_keeps_no_other_from_being_answered(home: Path) -> None:
    with threads(home, [], otherwise={"text": "yes"}) as outside:
        server = outside.server
        async with linked(outside):
            root = server.say(server.owner, server.dm, "first")
            await outside.answered(server.dm, "yes", root=root)
        await until(lambda: server.connected == 0)
        (home / "state" / "loopd" / "mattermost" / "threads" / f"{root['id']}.json").write_text("{")
        assert server.say(server.owner, server.dm, "second", root)["root_id"] == root["id"]
        async with linked(outside):
            other = server.say(server.owner, server.dm, "elsewhere")
            await outside.answered(server.dm, "yes", root=other)
        assert outside.said(server.dm, root) == ["yes"]


async def test_a_thread_that_is_deleted_while_a_tool_runs_is_done_with(home: Path) -> None:
    with threads(home, [ASKS, {"text": "read it", "hold": True}], "output_chars = 50\n") as outside:
        server = outside.server
        outside.broker.tools["recall"] = Says("found " * 40)
        kept = home / "state" / "loopd" / "mattermost" / "channels" / f"{server.dm['id']}.json"
        async with linked(outside):
            root = server.say(server.owner, server.dm, "look")
            await until(lambda: len(outside.model.requests) == 2)
            server.delete(root["id"])
            outside.model.release()
            await until(lambda: root["id"] in (kept.read_text() if kept.exists() else ""))


async def test_a_call_that_is_asked_about_anew_has_one_question(home: Path) -> None:
    with threads(home, [ASKS, {"text": "done"}]) as outside:
        server, broker = outside.server, outside.broker
        # As after a redirect, and as by a brokerd whose question lapsed while it was away.
        broker.breaks, broker.expires = 1, "2099-01-01T00:00:00Z"

        def asks_anew(_: object) -> Says:
            broker._asked_for.clear()
            return Says("found", asks=True)

        broker.tools["recall"] = asks_anew
        async with linked(outside):
            root = server.say(server.owner, server.dm, "do it")
            await until(lambda: sum("recall?" in text for text in outside.said(server.dm, root)) == 2)
            older, newer = [post["id"] for post in server.posts(server.dm, root) if "recall?" in post["message"]]
            server.react(server.owner, older, "+1")
            await until(lambda: len(broker.of(ApprovalIgnored)) == 1)
            server.react(server.owner, newer, "+1")
            await outside.says(server.dm, "done", root)
        assert [one.why for one in broker.of(ApprovalIgnored)] == ["late"]
        assert len(broker.of(ApprovalAnswer)) == 1


async def test_a_question_that_is_longer_than_a_post_is_asked_in_several(home: Path) -> None:
    with threads(home, [ASKS, {"text": "done"}]) as outside:
        server = outside.server
        server.faults.max_post_chars = 1000
        outside.broker.more = " @all " * 300
        outside.broker.tools["recall"] = Says("found", asks=True)
        async with linked(outside):
            root = server.say(server.owner, server.dm, "do it")
            await until(lambda: any("or write `approve`" in text for text in outside.said(server.dm, root)))
            asked = [post for post in server.posts(server.dm, root) if "/ap-" in post["props"]["boxmaker"]]
            first, *between, last = asked
            assert "recall?" in first["message"]
            assert between
            assert all(len(post["message"]) <= 1000 for post in asked)
            server.react(server.owner, last["id"], "+1")
            await outside.says(server.dm, "done", root)
        assert [one.allow for one in outside.broker.of(ApprovalAnswer)] == [True]
