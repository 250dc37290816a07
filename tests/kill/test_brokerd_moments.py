"""brokerd killed at a moment that is known: after a decision's line and before its call; while the owner is asked."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest

from proto.faults import Fault
from proto.labels import PRIVATE, DataClass, Label
from proto.messages.broker import ApprovalAnswer, Approvals, ApprovalsReply
from proto.messages.wire import Ok, Verify, VerifyReply
from tests.brokerd.asking import URL, prepare
from tests.brokerd.running import S, Wanted
from tests.kill.brokerd_kill import Run

pytestmark = [pytest.mark.anyio, pytest.mark.kill, pytest.mark.timeout(120)]

ADD = {"action": "note", "text": "x"}


@asynccontextmanager
async def _started(home: Path) -> AsyncIterator[Run]:
    run = Run(home, 7)
    await run.start()
    try:
        yield run
    finally:
        run.kill()


async def _until(seen: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not seen():  # noqa: ASYNC110  (another process's)
            await anyio.sleep(0.01)


async def test_between_a_decision_and_its_call_nothing_has_run_and_it_can_be_asked_again(home: Path) -> None:
    async with _started(home) as run:
        brokerd = run.brokerd
        brokerd.memoryd.answer = brokerd.memoryd.remembered
        await brokerd.open()

        async def asking() -> None:
            with suppress(Fault):
                await brokerd.tool("memory", ADD)
                raise AssertionError("it was answered")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asking)
            await _until(lambda: bool(brokerd.audit("decision")))  # and memoryd is not there yet
            run.kill()
        async with brokerd.memoryd.running(), brokerd.egressd.running():
            await run.start()
            assert [line["verdict"] for line in brokerd.audit("decision")] == ["allow"]
            assert (brokerd.audit("result"), brokerd.stored_label()) == ([], PRIVATE)
            assert (await brokerd.tool("memory", ADD)).ok
            assert [sent.request.call for sent in brokerd.memoryd.calls] == ["c1"]
            reply: VerifyReply = await brokerd.owner(Verify(), VerifyReply)
            assert [state.first_bad for state in reply.journals] == [None]


async def test_between_a_label_on_disk_and_its_result_egressd_is_told_before_anything_is_answered(home: Path) -> None:
    async with _started(home) as run:
        brokerd = run.brokerd
        secret = Label(class_=DataClass.SECRET, untrusted=False)
        await brokerd.open()
        async with brokerd.egressd.running():
            brokerd.egressd.deaf = True

            async def rising() -> None:
                with suppress(Fault):
                    await brokerd.raise_label(secret)
                    raise AssertionError("it was answered")

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(rising)
                await _until(lambda: bool(brokerd.egressd.notices))
                run.kill()
            brokerd.egressd.deaf = False
            brokerd.egressd.notices.clear()
            await run.start()
            assert await brokerd.raise_label(PRIVATE) == secret
            assert [notice.class_ for notice in brokerd.egressd.notices] == [DataClass.SECRET]


async def test_while_the_owner_is_asked_the_question_stays_and_its_answer_holds(home: Path) -> None:
    async with _started(home) as run:
        brokerd = run.brokerd
        prepare(brokerd)
        await brokerd.open()
        wanted = Wanted()

        async def asking() -> None:
            with suppress(Fault):
                await brokerd.asking("http_fetch", {"url": URL}, wanted)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(asking)
            approval = await wanted.question()
            run.kill()
        await run.start()
        listed: ApprovalsReply = await brokerd.owner(Approvals(), ApprovalsReply)
        assert [(row.approval, row.session, row.text) for row in listed.approvals] == [
            (approval, S, f"http_fetch {URL}")
        ]
        await brokerd.owner(ApprovalAnswer(approval=approval, allow=True, by="me"), Ok)
        async with brokerd.egressd.running():
            await brokerd.asking("http_fetch", {"url": URL}, wanted)
        assert wanted.response is not None
        assert wanted.response.ok
