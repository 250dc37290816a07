"""A call that an earlier brokerd had begun after the owner's answer is not made again: nobody can say how far it came."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from brokerd.calls import INTERRUPTED
from proto.faults import Fault
from proto.messages.broker import Approvals, ApprovalsReply
from proto.reasons import REASONS
from tests.brokerd.asking import URL, answer, prepare, unknown
from tests.brokerd.running import Brokerd, Wanted, running

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def _stopped_after(home: Path) -> AsyncIterator[tuple[Brokerd, Wanted]]:
    """A call that waits for the owner; at the end of the block brokerd is ended in the midst of what it does."""
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        prepare(brokerd)
        await brokerd.open()
        wanted = Wanted()

        async def asking() -> None:
            with suppress(Fault):
                await brokerd.asking("http_fetch", {"url": URL}, wanted)

        tasks.start_soon(asking)
        yield brokerd, wanted
        kept = _stored(home)
        tasks.cancel_scope.cancel()
    for path, data in kept.items():
        path.write_bytes(data)  # as a crash leaves it, whether or not it was seen that the requester had gone


def _stored(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (home / "state/brokerd/approvals").iterdir()}


async def _again(brokerd: Brokerd, url: str = URL, **more: Any) -> Wanted:
    wanted = Wanted()
    await brokerd.asking("http_fetch", {"url": url}, wanted, **more)
    return wanted


async def _not_made_again(home: Path) -> None:
    """Whatever the policy says now, and however often it is asked for."""
    for mode in ("ask", "auto"):
        async with running(home) as brokerd:
            brokerd.grant("web", mode=mode, hosts=["example.org"])
            assert (await brokerd.owner(Approvals(), ApprovalsReply)).approvals == []
            for _ in range(2):
                wanted = await _again(brokerd)
                assert wanted.response is not None
                assert (wanted.questions, wanted.response.ok, wanted.response.text) == ([], False, INTERRUPTED)
            assert brokerd.egressd.fetches == []
            assert brokerd.audit("result")[-1]["ok"] is False


async def test_one_that_was_running(home: Path) -> None:
    async with _stopped_after(home) as (brokerd, wanted):
        brokerd.egressd.gate = anyio.Event()
        await answer(brokerd, await wanted.question(), allow=True)
        await brokerd.egressd.began.wait()
    await _not_made_again(home)
    async with running(home) as brokerd:
        brokerd.grant("web", mode="auto", hosts=["example.org"])
        brokerd.egressd.page(URL)
        other = await _again(brokerd, call_id="c2")
        assert other.response is not None
        assert other.response.ok, "another call for the same is another call"


async def test_one_that_waited_at_a_redirect(home: Path) -> None:
    async with _stopped_after(home) as (brokerd, wanted):
        brokerd.egressd.redirect(URL, "https://www.example.org/")
        await answer(brokerd, await wanted.question(), allow=True)
        second = await wanted.question(2)
    async with running(home) as brokerd:
        await unknown(brokerd, second)
        last = brokerd.audit("approval")[-1]
        assert (last["event"], last["outcome"], last["approval"]) == ("void", "gone", second)
    await _not_made_again(home)


async def test_one_that_waited_at_a_redirect_which_its_grant_allowed_until_there(home: Path) -> None:
    async with _stopped_after(home) as (brokerd, wanted):
        brokerd.egressd.redirect(URL, "https://www.example.org/")
        await answer(brokerd, await wanted.question(), allow=True)
        await wanted.question(2)
    for path in _stored(home):
        if msgspec.json.decode(path.read_bytes())["hop"] == 0:
            path.unlink()  # as if the first hop had needed no question
    await _not_made_again(home)


async def test_a_no_that_was_not_told_yet_is_told_without_a_new_question(home: Path) -> None:
    async with _stopped_after(home) as (brokerd, wanted):
        approval = await wanted.question()
        waits = _stored(home)
        await answer(brokerd, approval, allow=False)
        await wanted.answer()
    for path, data in waits.items():
        kept = msgspec.json.decode(data)
        path.write_bytes(msgspec.json.encode({**kept, "outcome": "denied"}))
    async with running(home) as brokerd:
        prepare(brokerd)
        told = await _again(brokerd)
        assert told.response is not None
        assert [question.approval for question in told.questions] == [approval]
        assert told.response.text == REASONS["denied"]
        assert _stored(home) == {}


async def test_it_is_forgotten_when_the_approval_would_have_lapsed(home: Path) -> None:
    async with _stopped_after(home) as (brokerd, wanted):
        brokerd.egressd.gate = anyio.Event()
        await answer(brokerd, await wanted.question(), allow=True)
        await brokerd.egressd.began.wait()
    for path, data in _stored(home).items():
        kept = msgspec.json.decode(data)
        kept["approval"]["expires"] = "2020-01-01T00:00:00Z"
        path.write_bytes(msgspec.json.encode(kept))
    async with running(home) as brokerd:
        brokerd.grant("web", mode="auto", hosts=["example.org"])
        brokerd.egressd.page(URL)
        assert _stored(home) == {}
        assert (await brokerd.fetch(URL)).ok
