"""A backup of a box at work, and the box that is made of it: the same memory, sessions, labels and approvals."""

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proto import sockets
from proto.faults import Fault
from proto.labels import DataClass
from proto.messages import broker, egress, loop, memory, wire
from proto.role.ask import ask_stream
from tests.e2e.box import Box, running
from tests.fakes.model import FakeModel
from tests.fakes.page import FETCH

pytestmark = [pytest.mark.e2e, pytest.mark.measured, pytest.mark.timeout(120)]

WRITERS = 8


@pytest.fixture
def model(tmp_path: Path, home: Path) -> Iterator[FakeModel]:
    with FakeModel(path=home.with_name(f"{home.name}m") / "model.sock") as fake:
        fake.otherwise = {"text": "Noted."}
        yield fake
    shutil.rmtree(home.with_name(f"{home.name}m"))


@pytest.fixture(autouse=True)
def no_leftovers(home: Path) -> Iterator[None]:
    yield
    for path in home.parent.glob(f"{home.name}.*"):
        shutil.rmtree(path)


def _bxctl(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "bxctl.cli", "--home", str(home), *words)
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def _seen(box: Box, sessions: list[str]) -> dict[str, Any]:
    """What the owner can see of a box, without what a start or a question changes."""
    labels = box.ask("owner-broker", broker.SessionLabels(), broker.SessionLabelsReply)
    shown = box.ask("owner-memory", memory.MemoryShow(), memory.MemoryShowReply)
    return {
        "block": box.ask("loop-memory", memory.MemoryBlock(), memory.MemoryBlockReply).text,
        "notes": shown.index.notes,
        "edits": box.ask("owner-memory", memory.Edits(last=None, id=None), memory.EditsReply).edits,
        "labels": {row.session: (row.class_, row.untrusted) for row in labels.sessions},
        "approvals": box.ask("owner-broker", broker.Approvals(), broker.ApprovalsReply).approvals,
        "logs": {
            session: box.ask("owner-loop", loop.SessionLog(session=session, first=0), loop.SessionLogReply).records
            for session in sessions
        },
        "usage": box.ask("owner-egress", egress.Usage(), egress.UsageReply).rows,
        "verify": [
            (one.path, one.lines, one.head, one.first_bad)
            for one in box.ask("owner-memory", wire.Verify(), wire.VerifyReply).journals
        ],
    }


def _files(home: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(home)): path.read_bytes()
        for folder in ("memory", "sessions", "audit", "config", "grants")
        for path in (home / folder).rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def test_a_box_that_is_put_back_is_the_same_box(home: Path, model: FakeModel, tmp_path: Path) -> None:
    (home / "grants").mkdir(mode=0o700)
    (home / "grants" / "http_fetch.toml").write_text(FETCH)
    (home / "credentials.env").write_text("UP_KEY=sk-test\n")
    target = tmp_path / "x.bxbackup"
    with running(home, model=model.url) as box:
        session = box.chat("papaya trees are ripe in May").session
        box.chat("and figs?", session)
        remember = {"action": "add", "file": "memory", "text": "The launch is on Thursday."}
        box.open_session("chat-labelled", "scripted")
        call = broker.ToolRequest(session="chat-labelled", call="c1", tool="memory", arguments=remember)
        assert box.ask("loop-broker", call, broker.ToolResponse).ok
        assert "Thursday" in (home / "memory/memory.md").read_text()
        note = {"action": "note", "text": "§ a line that looks like a header\nand 世界"}
        call = broker.ToolRequest(session="chat-labelled", call="c2", tool="memory", arguments=note)
        assert box.ask("loop-broker", call, broker.ToolResponse).ok
        box.open_session("chat-asking", "scripted")
        waiting = threading.Thread(target=_ask_for_approval, args=(box,), daemon=True)
        waiting.start()
        while not box.ask("owner-broker", broker.Approvals(), broker.ApprovalsReply).approvals:
            pass
        raised = broker.SessionLabel(session="chat-labelled", class_=DataClass.SECRET, untrusted=True)
        box.ask("loop-broker", raised, broker.SessionState)
        assert "looks like a header" in (home / "memory/notes.md").read_text()
        before, files = _seen(box, [session]), _files(home)
        done = _bxctl(home, "backup", str(target), "--json")
        assert (done.returncode, done.stderr) == (0, "")
        (home / "memory/memory.md").write_text("ruined by hand\n")
        box.ask("loop-broker", broker.SessionClose(session="chat-labelled"), broker.SessionState)
        box.chat("said after the backup")
    restored = _bxctl(home, "restore", str(target), "--json")
    assert (restored.returncode, restored.stderr) == (0, "")
    assert _files(home) == files
    assert (home / "credentials.env").read_text() == "UP_KEY=sk-test\n"
    with running(home, model=model.url) as box:
        assert _seen(box, [session]) == before
        assert {session, "chat-labelled", "chat-asking"} == {*before["labels"]}
        assert before["labels"]["chat-labelled"] == ("secret", True)
        assert [one.session for one in before["approvals"]] == ["chat-asking"]
        recall = broker.ToolRequest(session=session, call="r1", tool="recall", arguments={"query": "papaya"})
        assert "papaya trees are ripe" in box.ask("loop-broker", recall, broker.ToolResponse).text
        assert box.chat("go on", session).text == "Noted."


def _ask_for_approval(box: Box) -> None:
    url = {"url": "http://127.0.0.1:9/nothing-listens"}
    call = broker.ToolRequest(session="chat-asking", call="f1", tool="http_fetch", arguments=url)
    path = sockets.socket("loop-broker").at(box.home)
    with contextlib.suppress(Fault):  # the box ends while it waits
        list(ask_stream(path, call, broker.ApprovalWanted, broker.ToolResponse, timeout_s=60.0))


class Writer(threading.Thread):
    """Notes and raises labels until it is told to stop; what was acknowledged, in order."""

    def __init__(self, box: Box, number: int) -> None:
        super().__init__(daemon=True)
        self.session = f"chat-writer-{number}"
        self.said: list[str] = []
        self.ended = threading.Event()
        self._box = box
        box.open_session(self.session, "scripted")

    def run(self) -> None:
        for number in itertools.count():
            if self.ended.is_set():
                return
            text = f"{self.session} says {number}"
            arguments = {"action": "note", "text": text}
            call = broker.ToolRequest(session=self.session, call=f"c{number}", tool="memory", arguments=arguments)
            if self._box.ask("loop-broker", call, broker.ToolResponse).ok:
                self.said.append(text)


def test_what_was_acknowledged_before_it_began_is_in_it_while_eight_write(home: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.bxbackup"
    with running(home) as box:
        writers = [Writer(box, number) for number in range(WRITERS)]
        for writer in writers:
            writer.start()
        while not all(writer.said for writer in writers):
            time.sleep(0.01)
        before = [[*writer.said] for writer in writers]
        done = _bxctl(home, "backup", str(target), "--json")
        for writer in writers:
            writer.ended.set()
        for writer in writers:
            writer.join()
    # 4 would be a chain that does not hold.
    assert (done.returncode, done.stderr) == (0, "")
    assert [one["first_bad"] for one in json.loads(done.stdout)["journals"]] == [None, None]
    assert _bxctl(home, "restore", str(target)).returncode == 0
    notes = (home / "memory/notes.md").read_text()
    edits = "".join(path.read_text() for path in sorted((home / "memory/edits").glob("*.jsonl")))
    for writer, said in zip(writers, before, strict=True):
        kept = [text for text in writer.said if f"{text}\n" in notes]
        assert kept == writer.said[: len(kept)]
        assert len(kept) >= len(said)
        assert all(text in edits for text in kept)
    with running(home, "memoryd", "brokerd") as box:
        # Files, journal and head agree: nothing of it looks as if a hand or a crash had been there.
        assert "hand-edit" not in box.log("memoryd")
        labels = box.ask("owner-broker", broker.SessionLabels(), broker.SessionLabelsReply)
        assert {writer.session for writer in writers} == {row.session for row in labels.sessions}
        for row in ("owner-memory", "owner-broker"):
            assert [one.first_bad for one in box.ask(row, wire.Verify(), wire.VerifyReply).journals] == [None]


def test_a_newer_home_is_refused_by_each_daemon_and_an_older_one_is_brought_up(home: Path) -> None:
    state = home / "state"
    (state / "loopd/marks").mkdir(parents=True)
    mark = '{"record":3,"attempts":0,"ended":"session-full"}'
    (state / "loopd/marks/chat-a.json").write_text(mark)
    (state / "loopd/format").write_text("0\n")
    with running(home, "loopd") as box:
        assert '"event": "home-migrated"' in box.log("loopd")
    assert (state / "loopd/turns/chat-a.json").read_text() == mark
    assert (state / "loopd/before-0/state/loopd/marks/chat-a.json").read_text() == mark
    assert (state / "loopd/format").read_text() == "1\n"
    for daemon in ("memoryd", "brokerd", "egressd", "loopd"):
        (state / daemon).mkdir(exist_ok=True)
        (state / daemon / "format").write_text("2\n")
        command = (sys.executable, "-m", daemon, "serve", "--home", str(home))
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
        assert done.returncode == 1
        assert json.loads(done.stderr.splitlines()[-1])["runbook"] == "home-newer"
