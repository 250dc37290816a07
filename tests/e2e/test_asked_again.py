"""The owner is asked, brokerd is killed, and the chat still gets its answer, once."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from proto.messages import broker, loop
from tests.e2e.box import Box, Said, running
from tests.fakes.model import FakeModel
from tests.fakes.page import FETCH

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

_URL = "http://127.0.0.1:9/nothing-listens"


@pytest.fixture
def model(home: Path) -> Iterator[FakeModel]:
    with FakeModel(path=home / "m" / "model.sock") as fake:
        yield fake


@pytest.fixture
def box(home: Path, model: FakeModel) -> Iterator[Box]:
    (home / "grants").mkdir(mode=0o700)
    (home / "grants" / "http_fetch.toml").write_text(FETCH)
    fetch = {"tool": "http_fetch", "arguments": {"url": _URL}}
    model.script = [{"calls": [{"name": "call_tool", "arguments": fetch}]}, {"text": "done"}]
    with running(home, model=model.url) as running_box:
        yield running_box


class Chat:
    """A turn in a thread of its own, and its events so far."""

    def __init__(self, box: Box) -> None:
        self.said = Said([])
        self._box = box
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for event in self._box.chat_events("fetch it", timeout_s=60.0):
            self.said.events.append(event)

    def question(self) -> loop.ChatApproval:
        """What the owner is asked."""
        deadline = time.monotonic() + 30
        while not (found := self.said.of(loop.ChatApproval)):
            assert time.monotonic() < deadline, self.said.events
            time.sleep(0.01)
        asked: loop.ChatApproval = found[0]
        return asked

    def end(self) -> Said:
        """The whole turn."""
        self._thread.join(60)
        return self.said


@pytest.mark.parametrize("allow", [True, False])
def test_an_answer_after_a_kill_of_brokerd_reaches_the_chat_once(box: Box, model: FakeModel, allow: bool) -> None:
    chat = Chat(box)
    asked = chat.question()
    box.kill("brokerd")
    time.sleep(0.5)  # brokerd is away for a while, so that loopd asks in vain too
    box.start("brokerd")
    waiting = box.ask("owner-broker", broker.Approvals(), broker.ApprovalsReply).approvals
    assert [one.approval for one in waiting] == [asked.approval]
    words = ("--home", str(box.home), "approve" if allow else "deny", asked.approval)
    subprocess.run((sys.executable, "-m", "bxctl.cli", *words), check=True, stdout=subprocess.DEVNULL)
    said = chat.end()
    assert said.text == "done"
    assert len(said.of(loop.ChatApproval)) == 1
    (result,) = [message["content"] for message in model.requests[-1].messages if message["role"] == "tool"]
    assert ("the owner said no" in result) is not allow
    audited: broker.DecisionsReply = box.ask(
        "owner-broker", broker.Decisions(last=100, session=said.session), broker.DecisionsReply
    )
    lines = audited.decisions
    assert [line["event"] for line in lines if line["kind"] == "approval"] == ["asked", "answered"]
    assert len([line for line in lines if line["kind"] == "result"]) == 1
    made = [line for line in lines if line["kind"] == "decision" and line.get("approval") == asked.approval]
    assert len(made) == (1 if allow else 0)
    assert list((box.home / "state/brokerd/approvals").iterdir()) == []
