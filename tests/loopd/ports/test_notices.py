"""Word to memoryd, which holds no answer up."""

from functools import partial

import anyio
import pytest

from loopd.ports import notices
from loopd.ports.notices import Notices

pytestmark = pytest.mark.anyio


async def test_words_of_one_session_fold_while_memoryd_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "_MOMENT_SECONDS", 0.02)
    running, sent = anyio.Event(), []

    async def send(session: str) -> None:
        sent.append(session)
        await running.wait()

    words = Notices(send)
    async with anyio.create_task_group() as tasks:
        # The first is on its way; of those that follow, one must go, since the first may not know what is new.
        for session in ("chat-a", "chat-a", "chat-a", "chat-b", "chat-a"):
            await words.tell(tasks, session)
        assert sent == ["chat-a", "chat-b"]
        running.set()
    assert sent == ["chat-a", "chat-b", "chat-a"]


async def test_who_tells_waits_for_a_word_that_was_sent_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "_MOMENT_SECONDS", 30)
    steps: list[str] = []
    gates = [anyio.Event(), anyio.Event()]

    async def send(session: str) -> None:
        steps.append("sent")
        await gates[steps.count("sent") - 1].wait()

    words = Notices(send)

    async def tell(name: str, tasks: anyio.abc.TaskGroup) -> None:
        await words.tell(tasks, "chat-a")
        steps.append(name)

    async with anyio.create_task_group() as tasks:
        for name in ("first", "second"):
            tasks.start_soon(partial(tell, name, tasks))
            await anyio.wait_all_tasks_blocked()
        for gate in gates:
            gate.set()
            await anyio.wait_all_tasks_blocked()
    assert steps.index("second") > [place for place, step in enumerate(steps) if step == "sent"][1]
    assert steps.count("sent") == 2
