"""An answer of somebody in a thread that did not count is in the audit log, and changes nothing."""

from pathlib import Path

import anyio
import pytest

from proto.faults import Fault
from proto.messages.broker import ApprovalIgnored
from proto.messages.wire import Ok
from proto.role.call import call
from tests.brokerd.asking import answer, asked, prepare
from tests.brokerd.running import running

pytestmark = pytest.mark.anyio


async def test_it_is_audited_and_the_question_waits_on(home: Path) -> None:
    async with running(home) as brokerd, anyio.create_task_group() as tasks:
        prepare(brokerd)
        await brokerd.open()
        wanted, approval = await asked(brokerd, tasks)
        session = brokerd.audit("approval")[-1]["session"]
        ignored = ApprovalIgnored(session=session, approval=approval, by="mattermost x", why="foreign")
        assert await call(brokerd.loop, ignored, Ok) == Ok()
        line = brokerd.audit("approval")[-1]
        assert [line[name] for name in ("event", "approval", "by", "why")] == [
            "ignored",
            approval,
            "mattermost x",
            "foreign",
        ]
        await answer(brokerd, approval, allow=True)
        assert (await wanted.answer()).ok


async def test_a_session_that_is_not_there_has_no_answers(home: Path) -> None:
    async with running(home) as brokerd:
        ignored = ApprovalIgnored(session="chat-nowhere", approval="ap-0123456789abcdef", by="x", why="late")
        with pytest.raises(Fault) as caught:
            await call(brokerd.loop, ignored, Ok)
        assert caught.value.code == "session-not-open"
