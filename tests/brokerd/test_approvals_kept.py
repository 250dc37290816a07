"""Approvals across a start of brokerd: what waited waits on, and the answer holds once, for exactly what was asked."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import msgspec
import pytest

from proto.faults import Fault
from proto.labels import DataClass, Label
from proto.messages.broker import Approvals, ApprovalsReply
from proto.reasons import REASONS
from tests.brokerd.asking import URL, answer, asked, prepare, unknown
from tests.brokerd.running import Brokerd, Wanted, running

pytestmark = pytest.mark.anyio

UNTRUSTED = Label(class_=DataClass.PRIVATE, untrusted=True)


async def _left_waiting(home: Path) -> str:
    """An approval that waits when brokerd ends."""
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        prepare(brokerd)
        await brokerd.open()
        _, approval = await asked(brokerd, tasks)
        stored = home / f"state/brokerd/approvals/{approval}.json"
        kept = stored.read_bytes()
        tasks.cancel_scope.cancel()
    stored.write_bytes(kept)  # as a crash leaves it, whether or not it was seen that the requester had gone
    return approval


def _files(home: Path) -> list[Path]:
    return list((home / "state/brokerd/approvals").iterdir())


async def test_what_waits_when_brokerd_is_told_to_end_waits_on(home: Path) -> None:
    async with anyio.create_task_group() as tasks:
        async with running(home) as brokerd:
            prepare(brokerd)
            await brokerd.open()
            wanted = Wanted()

            async def asking() -> None:
                with suppress(Fault):
                    await brokerd.asking("http_fetch", {"url": URL}, wanted)

            tasks.start_soon(asking)
            approval = await wanted.question()
        assert [path.name for path in _files(home)] == [f"{approval}.json"]
        assert [line["event"] for line in brokerd.audit("approval")] == ["asked"]


@pytest.mark.parametrize("allow", [True, False])
@pytest.mark.parametrize("again", [True, False], ids=["restarted again", "not"])
async def test_an_answer_after_a_restart_holds_for_the_same_call_once(home: Path, allow: bool, again: bool) -> None:
    approval = await _left_waiting(home)
    async with running(home) as brokerd:
        listed: ApprovalsReply = await brokerd.owner(Approvals(), ApprovalsReply)
        assert [row.approval for row in listed.approvals] == [approval]
        await answer(brokerd, approval, allow=allow)
        await unknown(brokerd, approval)
        assert (await brokerd.owner(Approvals(), ApprovalsReply)).approvals == []
        assert brokerd.audit("approval")[-1]["event"] == "answered"
        if not again:
            await _used_once(brokerd, approval, allow=allow)
    if again:
        async with running(home) as brokerd:
            await _used_once(brokerd, approval, allow=allow)


async def _used_once(brokerd: Brokerd, approval: str, *, allow: bool) -> None:
    prepare(brokerd)
    wanted = Wanted()
    await brokerd.asking("http_fetch", {"url": URL}, wanted)
    assert wanted.response is not None
    assert [question.approval for question in wanted.questions] == [approval]
    assert (wanted.response.ok, _files(brokerd.home)) == (allow, [])
    assert allow or wanted.response.text == REASONS["denied"]
    async with anyio.create_task_group() as tasks:
        wanted, another = await asked(brokerd, tasks)
        assert another != approval
        tasks.cancel_scope.cancel()


async def test_a_call_that_is_asked_again_after_a_restart_waits_for_the_same_answer(home: Path) -> None:
    approval = await _left_waiting(home)
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        prepare(brokerd)
        wanted, same = await asked(brokerd, tasks)
        assert same == approval
        await answer(brokerd, approval, allow=True)
        assert (await wanted.answer()).ok
        assert _files(home) == []


@pytest.mark.parametrize(
    "other",
    [{"call_id": "c2"}, {"url": "https://example.org/2"}, {"session": "chat-2"}],
    ids=["call", "arguments", "session"],
)
async def test_an_answer_after_a_restart_holds_for_no_other_call(home: Path, other: dict[str, str]) -> None:
    approval = await _left_waiting(home)
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        await brokerd.open("chat-2")
        await answer(brokerd, approval, allow=True)
        wanted = Wanted()
        url = {"url": other.pop("url", URL)}
        tasks.start_soon(partial(brokerd.asking, "http_fetch", url, wanted, **other))
        assert await wanted.question() != approval
        assert brokerd.egressd.fetches == []
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("answered", [True, False])
async def test_after_a_restart_too_a_label_that_rises_makes_it_void(home: Path, answered: bool) -> None:
    approval = await _left_waiting(home)
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        if answered:
            await answer(brokerd, approval, allow=True)
        await brokerd.raise_label(UNTRUSTED)
        assert (brokerd.audit("approval")[-1]["outcome"], _files(home)) == ("label-rose", [])
        _, another = await asked(brokerd, tasks)
        assert another != approval
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("answered", [True, False])
async def test_after_a_restart_too_it_lapses_in_its_time(home: Path, answered: bool) -> None:
    approval = await _left_waiting(home)
    path = home / f"state/brokerd/approvals/{approval}.json"
    kept = msgspec.json.decode(path.read_bytes())
    kept["approval"]["expires"] = "2020-01-01T00:00:00Z"
    kept["outcome"] = "allowed" if answered else None
    path.write_bytes(msgspec.json.encode(kept))
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        await unknown(brokerd, approval)
        assert (await brokerd.owner(Approvals(), ApprovalsReply)).approvals == []
        assert brokerd.audit("approval")[-1]["event"] == "lapsed"
        _, another = await asked(brokerd, tasks)
        assert another != approval
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: b"",
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda _: b"\xff",
        lambda _: b"null",
        lambda data: data.replace(b'"ap-', b'"xx-'),
        lambda data: data.replace(b'"expires":"', b'"expires":"never'),
        lambda data: data.replace(b'"outcome":null', b'"outcome":"lapsed"'),
        lambda data: data.replace(b'"session":"chat-1"', b'"session":"../x"'),
        lambda data: data.replace(b'"ap-', b'"ap-0').replace(b'","session"', b'","more":1,"session"'),
    ],
    ids=["empty", "cut", "half", "no text", "null", "no id", "no time", "outcome", "session", "more"],
)
async def test_a_file_that_cannot_be_read_has_lapsed_and_holds_for_nothing(
    home: Path, spoil: Callable[[bytes], bytes]
) -> None:
    approval = await _left_waiting(home)
    path = home / f"state/brokerd/approvals/{approval}.json"
    path.write_bytes(spoil(path.read_bytes()))
    async with running(home) as brokerd:
        await unknown(brokerd, approval)
        lapsed = brokerd.audit("approval")[-1]
        assert (lapsed["event"], lapsed["approval"]) == ("lapsed", approval)
        assert lapsed["why"] == "its file cannot be read"
        assert _files(home) == []
