"""A chat turn leaves its decision contexts: what left and what came, byte for byte, for the owner alone."""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from proto.messages import memory
from tests.e2e.box import Box, running
from tests.fakes.model import FakeModel, Reply, events

pytestmark = [pytest.mark.e2e, pytest.mark.measured, pytest.mark.timeout(120)]

KEY = "sk-test-0123456789abcdef"
RECALL: Reply = {"calls": [{"name": "recall", "arguments": {"query": "papaya"}}]}
ANSWER: Reply = {"text": f"They are ripe. {KEY}", "chunk": 99}
MASKED: Reply = {**ANSWER, "text": f"They are ripe. {'*' * len(KEY)}"}


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="bx"))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module")
def model(home: Path) -> Iterator[FakeModel]:
    with FakeModel(path=home / "m" / "model.sock") as fake:
        yield fake


@pytest.fixture(scope="module")
def box(home: Path, model: FakeModel) -> Iterator[Box]:
    """One box for all of them: each test has a session of its own."""
    (home / "config").mkdir()
    (home / "config/loopd.toml").write_text('[model]\ndestination = "scripted"\nname = "scripted-1"\n')
    (home / "grants.toml").write_text(
        f'[destinations.scripted]\nbase_url = "{model.url}"\ncredential = "UP_KEY"\n'
        "[domains.dom-me]\ntranscript_retention_days = 7\n"
    )
    with running(home, environ={"UP_KEY": KEY}) as running_box:
        yield running_box


def _contexts(box: Box, session: str, count: int) -> list[memory.KeptItem]:
    """The session's contexts in the order of their turns, once there are so many."""
    until = time.monotonic() + 20
    while True:
        asked = memory.KeptList(kept="contexts", session=session)
        found: list[memory.KeptItem] = box.ask("owner-memory", asked, memory.KeptListReply).items
        if len(found) >= count:
            return sorted(found, key=lambda one: one.context.turn if one.context else 0)
        assert time.monotonic() < until, found
        time.sleep(0.02)


def _bxctl(box: Box, *words: str) -> bytes:
    command = (sys.executable, "-m", "bxctl.cli", "context", *words, "--home", str(box.home))
    return subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL).stdout


def test_a_turn_leaves_its_contexts_to_the_byte(box: Box, model: FakeModel) -> None:
    model.script = [{"text": "Noted."}, RECALL, ANSWER]
    earlier = box.chat("papaya trees are ripe in May").session
    session = box.chat("when are they?").session
    found = _contexts(box, session, 2)
    sent = [request for request in model.requests if b"when are they?" in request.body]
    assert len(found) == len(sent) == 2
    for turn, (item, request, reply) in enumerate(zip(found, sent, [RECALL, MASKED], strict=True), 1):
        bodies = {
            part.name: _bxctl(box, "show", session, item.call, "--part", part.name, "--raw") for part in item.parts
        }
        assert bodies["request"] == request.body
        assert bodies["response"] == b"".join(events(reply))
        assert [hashlib.sha256(bodies[part.name]).hexdigest() for part in item.parts] == [p.sha256 for p in item.parts]
        assert all(part.whole for part in item.parts)
        assert item.context == memory.ContextAbout(
            turn=turn, destination="scripted", auth="key", route="openai-chat", method="POST",
            path="/v1/chat/completions", status=200, model="scripted-1",
        )  # fmt: skip
        assert (item.domain, item.observed_by) == ("dom-me", "egress")
        assert (item.class_.value, item.untrusted) == ("private", False)
        assert request.headers["authorization"] == f"Bearer {KEY}"
    assert f"{earlier}/0/0" in found[1].entries
    kept = [path for path in (box.home / "record").rglob("*") if path.is_file()]
    assert len(kept) == 9 and not [path for path in kept if KEY.encode() in path.read_bytes()]


def test_the_owner_lists_shows_and_erases_them_and_nobody_finds_them(box: Box, model: FakeModel) -> None:
    before = box.ask("owner-memory", memory.Reindex(), memory.Reindexed)
    model.script = [{"text": "quincejelly"}]
    session = box.chat("say something").session
    (item,) = _contexts(box, session, 1)
    assert item.call.encode() in _bxctl(box, "list", "--session", session)
    assert b'"messages": [' in _bxctl(box, "show", session, item.call)
    after = box.ask("owner-memory", memory.Reindex(), memory.Reindexed)
    assert (after.logs, after.records, after.notes) == (before.logs + 1, before.records + 2, before.notes)
    assert _bxctl(box, "erase", session, "--yes") == b"erased: 1 context\n"
    assert _contexts(box, session, 1)[0].erased == "owner"
    assert not list((box.home / "record").rglob(f"{item.call}.re*"))


def test_a_memoryd_that_is_away_gets_them_later_and_egressd_may_be_killed_meanwhile(box: Box, model: FakeModel) -> None:
    model.script = [{"text": "one"}, {"text": "two"}]
    session = box.chat("hello").session
    _contexts(box, session, 1)
    box.kill("memoryd")
    box.chat("hello again", session)
    until = time.monotonic() + 20
    while not list((box.home / "state/egressd/outbox").glob("*.item")):
        assert time.monotonic() < until
        time.sleep(0.02)
    box.kill("egressd")
    box.start("memoryd", "egressd")
    assert [one.context.turn for one in _contexts(box, session, 2) if one.context] == [1, 2]
