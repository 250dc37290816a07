"""The recall log."""

import json
from datetime import UTC, datetime
from pathlib import Path

from memoryd.trail.recalls import Recalls


def test_one_line_for_each_recall_a_file_for_each_month(tmp_path: Path) -> None:
    now = datetime(2026, 9, 30, 23, 59, 59, tzinfo=UTC)
    recalls = Recalls(tmp_path / "recalls", lambda: now)
    recalls.open()
    hit = {"kind": "record", "session": "chat-b", "epoch": 0, "record": 3, "time": "2026-09-01T00:00:00Z"}
    recalls.append("chat-a", "when?", [hit])
    recalls.append("chat-a", "nothing", [])
    lines = [json.loads(line) for line in (tmp_path / "recalls" / "2026-09.jsonl").read_text().splitlines()]
    assert lines == [
        {"time": "2026-09-30T23:59:59Z", "session": "chat-a", "query": "when?", "hits": [hit]},
        {"time": "2026-09-30T23:59:59Z", "session": "chat-a", "query": "nothing", "hits": []},
    ]


def test_a_torn_last_line_is_cut_off_and_told_of(tmp_path: Path) -> None:
    recalls = Recalls(tmp_path, lambda: datetime(2026, 9, 1, tzinfo=UTC))
    recalls.append("chat-a", "q", [])
    path = tmp_path / "2026-09.jsonl"
    path.write_bytes(path.read_bytes() + b'{"time"')
    assert [torn.bytes_cut for torn in recalls.open()] == [7]
    assert path.read_bytes().count(b"\n") == 1
    assert path.read_bytes().endswith(b"\n")
