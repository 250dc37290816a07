"""A label that rises reaches egressd before anything is handed out, whatever fails on the way."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from brokerd.audit import Audit
from proto.faults import FAULTS, Fault
from proto.labels import PRIVATE, DataClass, Label
from tests.brokerd.running import S, running

pytestmark = pytest.mark.anyio

SECRET = Label(class_=DataClass.SECRET, untrusted=False)
TOP = Label(class_=DataClass.SECRET, untrusted=True)
RECALL = {"query": "x"}
SOON = "[egress]\nnotice_s = 0.4\n"


async def test_an_egressd_that_is_busy_is_told_again(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        brokerd.egressd.busy = 3
        assert await brokerd.raise_label(SECRET) == SECRET
        assert [notice.class_ for notice in brokerd.egressd.notices] == [DataClass.SECRET]


async def test_what_egressd_could_not_be_told_of_is_withheld_until_it_was(home: Path) -> None:
    async with running(home, config=SOON) as brokerd:
        await brokerd.open()
        brokerd.egressd.busy = 1_000_000
        with pytest.raises(Fault) as caught:
            await brokerd.raise_label(SECRET)
        assert caught.value.code == "egressd-unreachable"
        assert brokerd.stored_label() == SECRET
        reply = await brokerd.tool("recall", RECALL)  # it raises nothing, and is withheld all the same
        assert (reply.ok, reply.text) == (False, FAULTS["egressd-unreachable"].sentence)
        assert brokerd.egressd.notices == []
        brokerd.egressd.busy = 0
        assert (await brokerd.tool("recall", RECALL)).ok
        assert [notice.class_ for notice in brokerd.egressd.notices] == [DataClass.SECRET]
        assert (await brokerd.tool("recall", RECALL)).ok
        assert len(brokerd.egressd.notices) == 1
        assert [line["class"] for line in brokerd.audit("session") if line["event"] == "label"] == ["secret"]


async def test_a_line_that_could_not_be_written_holds_no_notice_up_and_is_written_later(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        session = Audit.session

        def full(audit: Audit, event: str, *more: Any, **named: Any) -> None:
            if event == "label":
                raise OSError(28, "No space left on device")
            session(audit, event, *more, **named)

        with monkeypatch.context() as patch:
            patch.setattr(Audit, "session", full)
            for _ in range(2):
                with pytest.raises(Fault) as caught:
                    await brokerd.raise_label(SECRET)
                assert caught.value.code == "internal"
            assert [notice.class_ for notice in brokerd.egressd.notices] == [DataClass.SECRET]
        assert await brokerd.raise_label(PRIVATE) == SECRET
        labels = [line for line in brokerd.audit("session") if line["event"] == "label"]
        assert [(line["class"], line["cause"]) for line in labels] == [("secret", "session_label")]
        assert len(brokerd.egressd.notices) == 1


async def test_after_a_start_egressd_is_told_once_of_each_session_that_is_asked_for(home: Path) -> None:
    """It may have ended between the label on disk and the notice."""
    async with running(home) as brokerd:
        await brokerd.open(label=SECRET)
        assert brokerd.egressd.notices == []
    async with running(home) as brokerd:
        for _ in range(2):
            assert (await brokerd.tool("recall", RECALL)).ok
        assert [(notice.session, notice.class_) for notice in brokerd.egressd.notices] == [(S, DataClass.SECRET)]


async def test_nothing_is_answered_while_a_notice_is_under_way(home: Path) -> None:
    async with running(home, config=SOON) as brokerd, anyio.create_task_group() as tasks:
        await brokerd.open()
        brokerd.egressd.deaf = True
        refused = []

        async def refuse(label: Label) -> None:
            with pytest.raises(Fault) as caught:
                await brokerd.raise_label(label)
            refused.append(caught.value.code)

        tasks.start_soon(refuse, SECRET)
        await anyio.sleep(0.05)
        tasks.start_soon(refuse, PRIVATE)  # rises nothing itself
        while len(refused) < 2:  # noqa: ASYNC110  (other tasks')
            await anyio.sleep(0.02)
        assert refused == ["egressd-unreachable"] * 2


async def test_an_egressd_that_has_gone_with_its_socket_left_behind_is_not_waited_for(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open()
        brokerd.egressd.path.unlink()
        listening = await anyio.create_unix_listener(brokerd.egressd.path)
        await listening.aclose()
        assert await brokerd.raise_label(TOP) == TOP
