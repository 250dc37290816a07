"""M5a section 1, points 1 to 7, over the real daemons with a scripted model, and section 14's "on the device" lines."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proto.messages import broker, loop, memory, wire
from tests.e2e.box import Box, Said, running
from tests.fakes.model import FakeModel, Reply, calls
from tests.fakes.page import FETCH, serve_page

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

_PAGE = "<html><title>News</title><body><p>The release moved to March.</p></body></html>"


@pytest.fixture
def model(home: Path) -> Iterator[FakeModel]:
    with FakeModel(path=home / "m" / "model.sock") as fake:
        yield fake


@pytest.fixture
def box(home: Path, model: FakeModel) -> Iterator[Box]:
    (home / "grants").mkdir(mode=0o700)
    (home / "grants" / "http_fetch.toml").write_text(FETCH.replace('"ask"', '"auto"'))
    with running(home, model=model.url) as running_box:
        yield running_box


def _fetch(url: str) -> Reply:
    return calls("call_tool", tool="http_fetch", arguments={"url": url})


def _turn(box: Box, model: FakeModel, text: str, *replies: Reply, session: str | None = None) -> Said:
    """A turn in which the model gives these replies and then says "done"."""
    model.script = [*replies, {"text": "done"}]
    said = box.chat(text, session)
    assert said.text == "done"
    return said


def _edits(box: Box) -> list[dict[str, Any]]:
    reply: memory.EditsReply = box.ask("owner-memory", memory.Edits(last=50), memory.EditsReply)
    return reply.edits


def test_1_a_fact_from_one_session_is_recalled_in_another(box: Box, model: FakeModel) -> None:
    first = _turn(box, model, "The launch window moved to Thursday.")
    second = _turn(box, model, "When is the launch?", calls("recall", query="launch window"))
    assert second.session != first.session
    (result,) = model.results
    source, snippet = result.splitlines()[:2]
    assert source.startswith(f"[1] memory · session {first.session}, ")
    assert source.endswith(" UTC, the owner said · private")
    assert snippet == "The launch window moved to Thursday."


def test_2_an_entry_moved_out_by_consolidate_is_found(box: Box, model: FakeModel) -> None:
    _turn(box, model, "a", calls("memory", action="add", file="memory", text="The owner prefers answers in UTC."))
    moved = [{"old": "The owner prefers answers in UTC.", "move": True}, {"text": "The box is new."}]
    _turn(box, model, "b", calls("memory", action="consolidate", file="memory", entries=moved))
    _turn(box, model, "c", calls("recall", query="answers in UTC"))
    assert "# memory.md (15 of 2,200 characters)\nThe box is new." in model.system
    (result,) = model.results
    lines = result.splitlines()
    (at,) = (number for number, line in enumerate(lines) if " identity · moved 20" in line)
    assert lines[at].endswith(" from memory.md · private")
    assert lines[at + 1] == "The owner prefers answers in UTC."


def test_3_a_write_reaches_the_prompt_only_in_the_next_session(box: Box, model: FakeModel) -> None:
    writer = _turn(box, model, "a", calls("memory", action="add", file="user", text="Likes tea."))
    assert model.results == ["user.md updated (10 of 1,375 characters); it takes effect in the next session"]
    assert not writer.of(loop.ChatApproval)
    before = model.requests[-1].messages[0]
    box.kill("loopd")
    box.start("loopd")
    _turn(box, model, "b", session=writer.session)
    assert model.requests[-1].messages[0] == before
    assert "Likes tea." not in model.system
    _turn(box, model, "c")
    assert "# user.md (10 of 1,375 characters)\nLikes tea." in model.system


@pytest.mark.measured
def test_4_and_6_what_a_tainted_session_remembers_is_an_untrusted_note(box: Box, model: FakeModel) -> None:
    with serve_page(_PAGE) as url:
        said = _turn(
            box,
            model,
            "Read the news.",
            _fetch(url),
            calls("memory", action="add", file="memory", text="The release moved to March."),
            calls("memory", action="note", text="The news page speaks of March."),
            calls("memory", action="remove", file="memory", old="x"),
        )
    page, added, noted, removed = model.results
    assert "The release moved to March." in page
    assert added == "saved as a note (untrusted): this session has read untrusted content"
    assert noted == "noted (untrusted)"
    assert removed == "this session has read untrusted content; it can take notes but not change memory.md"
    (label,) = said.of(loop.ChatLabel)
    assert label.untrusted

    _turn(box, model, "What of the release?", calls("recall", query="release March"))
    assert "The release moved to March." not in model.system
    sources = model.results[0].splitlines()[0::2]
    assert any(": note" not in s and " memory-tainted · note, " in s and said.session in s for s in sources)
    assert all(" memory-tainted · " in s for s in sources if said.session in s and "the owner said" not in s)
    row = box.ask("owner-broker", broker.SessionLabels(), broker.SessionLabelsReply).sessions[0]
    assert row.untrusted, "a recalled tainted hit taints the session that asked"


@pytest.mark.measured
def test_7_the_owner_lists_every_write_and_undoes_the_latest(box: Box, model: FakeModel) -> None:
    _turn(box, model, "a", calls("memory", action="add", file="memory", text="One."))
    said = _turn(box, model, "b", calls("memory", action="add", file="memory", text="Two."))
    one, two = _edits(box)
    assert (two["session"], two["action"], two["went_to"], two["by"]) == (said.session, "add", "memory.md", "agent")
    listed = box.ask("owner-memory", memory.MemoryAdmin(command="log", arg=""), memory.MemoryAdminReply).text
    assert one["id"] in listed
    assert two["id"] in listed
    box.ask("owner-memory", memory.MemoryAdmin(command="undo", arg=two["id"]), memory.MemoryAdminReply)
    assert (box.home / "memory" / "memory.md").read_text() == "One."
    undo = _edits(box)[-1]
    box.ask("owner-memory", memory.MemoryAdmin(command="undo", arg=undo["id"]), memory.MemoryAdminReply)
    assert (box.home / "memory" / "memory.md").read_text() == "One.\n§\nTwo."
    for socket in ("owner-memory", "owner-broker"):
        journals = box.ask(socket, wire.Verify(), wire.VerifyReply).journals
        assert journals
        assert all(journal.first_bad is None for journal in journals)


def test_a_later_prompt_begins_with_the_bytes_of_the_earlier_one(box: Box, model: FakeModel) -> None:
    said = _turn(box, model, "Grüße, 世界", calls("recall", query="nothing"))
    _turn(box, model, "again", calls("memory", action="note", text="n"), session=said.session)
    box.stop()
    box.start()
    _turn(box, model, "and again", session=said.session)
    prompts = [json.dumps(request.messages, ensure_ascii=False)[:-1] for request in model.requests]
    assert len(prompts) == 5
    for earlier, later in itertools.pairwise(prompts):
        assert later.startswith(earlier)


_PROSE = (
    "The owner keeps the garden behind the house and waters it before breakfast when the weather is dry. "
    "Meetings are planned for the afternoon, since the morning belongs to writing and to long walks. "
    "When a plan changes, a short message is enough; a long explanation can wait until the evening. "
)


def _prose(characters: int) -> str:
    text = (_PROSE * (characters // len(_PROSE) + 1))[:characters]
    return text.strip().ljust(characters, ".")


@pytest.mark.model
@pytest.mark.parametrize("filled", [False, True])
def test_5_the_baseline_is_at_most_3000_tokens(box: Box, model: FakeModel, filled: bool) -> None:
    pytest.importorskip("xllamacpp", reason="the extra `model` is not installed")
    from boxmaker_model.tokens import count_tokens

    if filled:
        for name, limit in (("soul.md", 4000), ("memory.md", 2200), ("user.md", 1375)):
            (box.home / "memory" / name).write_text(_prose(limit))
    _turn(box, model, "hello")
    body = model.requests[-1].json
    baseline = model.system + json.dumps(body["tools"], ensure_ascii=False)
    if filled:
        assert "(2,200 of 2,200 characters)" in baseline
    assert count_tokens(baseline) <= 3000


def test_memory_unavailable_refuses_the_new_session_and_leaves_the_old(box: Box, model: FakeModel) -> None:
    said = _turn(box, model, "a")
    (box.home / "memory" / "memory.md").write_text("x" * 2201)
    failed = box.chat("b").failed
    assert failed.code == "memory-unavailable"
    assert failed.runbook == "memory-unavailable"
    _turn(box, model, "c", session=said.session)


def test_every_daemon_ends_with_0(box: Box) -> None:
    assert box.stop() == dict.fromkeys(("loopd", "egressd", "brokerd", "memoryd"), 0)
