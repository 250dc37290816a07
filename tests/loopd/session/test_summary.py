"""What the owner is shown of sessions."""

from pathlib import Path

import pytest

from loopd.session import summary
from loopd.session.records import Assistant, User, to_line
from loopd.session.store import Store
from proto.faults import Fault
from proto.frame import MAX_FRAME, pack
from proto.messages.loop import SessionLogReply
from tests.loopd.logs import SESSION, TIME, baseline


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "sessions")
    store.create(baseline())
    return store


def test_a_line_shows_the_first_words_escaped(store: Store) -> None:
    assert summary.line(store, SESSION) == summary.Line(TIME, TIME, 0, "", damaged=False)
    store.append(SESSION, User(time="2026-09-25T00:00:00Z", text="red\x1b[31m\n" + "x" * 200, author=None))
    line = summary.line(store, SESSION)
    assert (line.updated, line.records) == ("2026-09-25T00:00:00Z", 1)
    assert line.first.startswith("red\\u{1b}[31m\\nxxx")
    assert len(line.first) == summary.FIRST_CHARS


def test_a_damaged_session_is_shown_as_damaged(tmp_path: Path, store: Store) -> None:
    (tmp_path / "sessions" / SESSION / "0.jsonl").write_bytes(b"x\n{}\n")
    assert summary.line(store, SESSION) == summary.Line("", "", 2, "", damaged=True)
    assert summary.records(store, SESSION, 0) == ([{"damaged": True}, {}], None)


def test_records_come_in_as_many_frames_as_they_need(tmp_path: Path, store: Store) -> None:
    said = [Assistant(time=TIME, content=str(number) * 300_000, tool_calls=[]) for number in range(7)]
    store.append(SESSION, *said)
    found, first = [], 0
    while True:
        records, next_number = summary.records(store, SESSION, first)
        pack(SessionLogReply(records=records, next=next_number))
        found += records
        if next_number is None:
            break
        first = next_number
    assert found == [to_line(record) for record in said]
    with (tmp_path / "sessions" / SESSION / "0.jsonl").open("ab") as file:
        file.write(b'{"kind":"user","text":"' + b"y" * MAX_FRAME + b'"}\n')
    (too_large,), end = summary.records(store, SESSION, 7)
    assert (too_large["kind"], len(too_large["too_large"]), end) == ("user", 10_000, None)


def test_an_unknown_session_is_told(store: Store) -> None:
    with pytest.raises(Fault) as caught:
        summary.records(store, "chat-none", 0)
    assert caught.value.code == "session-unknown"
