"""Which entries a session was served: from the log, kept up with, by the time of the call."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.trail import served
from memoryd.trail.recalls import Recalls
from memoryd.trail.served import entry_id

RECORD = {"kind": "record", "session": "chat-b", "epoch": 0, "record": 3, "time": "2026-09-20T14:02:00Z"}
NOTE = {"kind": "noted", "session": "chat-c", "epoch": 0, "record": 7, "time": "2026-09-20T14:02Z"}


class Clock:
    now = datetime(2026, 9, 30, 23, 59, 50, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def _record(number: int) -> dict[str, Any]:
    return {**RECORD, "record": number}


def test_the_id_of_an_entry_is_what_its_hit_says() -> None:
    assert entry_id(RECORD) == "chat-b/0/3"
    assert entry_id(NOTE) == "notes/chat-c/2026-09-20T14:02Z/7"


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(["chat-a", "chat-aa"]), st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_what_is_kept_up_with_is_what_the_log_says(
    tmp_path_factory: pytest.TempPathFactory, recalls: list[tuple[str, int, int]]
) -> None:
    folder, clock = tmp_path_factory.mktemp("recalls"), Clock()
    live = Recalls(folder, clock)
    live.open()
    model: dict[str, str] = {}
    for session, number, seconds in recalls:
        live.served("chat-a", "9999")
        clock.now += timedelta(seconds=seconds)
        live.append(session, "what", [_record(number), NOTE])
        if session == "chat-a":
            for hit in (_record(number), NOTE):
                model.setdefault(entry_id(hit), clock.now.strftime("%Y-%m-%dT%H:%M:%SZ"))
    again = Recalls(folder, clock)
    for until in ["9999", "2026-09-30T23:59:55Z", *model.values()]:
        expected = [entry for entry, time in model.items() if time <= until]
        assert live.served("chat-a", until) == again.served("chat-a", until) == expected


def test_a_damaged_line_is_no_hit(tmp_path: Path) -> None:
    recalls = Recalls(tmp_path, Clock())
    lines = ('{"session":"chat-a"', '{"session":"chat-a","time":1,"hits":[]}', '["chat-a"]', '"chat-a"')
    whole = '{"session":"chat-a","time":"2026-09-30T23:59:50Z","hits":[1,{"kind":"record","session":"s","epoch":0,"record":1}]}'
    (tmp_path / "2026-09.jsonl").write_text(
        "\n".join([*lines, '{"session":"chat-a","time":"x","hits":3}', whole]) + "\n"
    )
    assert recalls.served("chat-a", "9999") == ["s/0/1"]


def test_only_so_many_sessions_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "MOST_SESSIONS", 2)
    recalls = Recalls(tmp_path, Clock())
    for session in ("chat-a", "chat-b", "chat-c", "chat-a"):
        recalls.append(session, "what", [RECORD])
        assert recalls.served(session, "9999") == ["chat-b/0/3"]
