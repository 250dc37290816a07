"""The answers that a repeated call is given again."""

from pathlib import Path

import pytest

from memoryd.trail import answers
from memoryd.trail.answers import Answer, Answers
from proto.labels import DataClass


def _answer(call: str, text: str = "noted") -> Answer:
    return Answer(session="chat-a", call=call, ok=True, text=text, class_=DataClass.PRIVATE, untrusted=False)


def _opened(path: Path) -> Answers:
    opened = Answers(path)
    opened.open()
    return opened


def test_the_first_answer_is_kept_over_a_new_start(tmp_path: Path) -> None:
    kept = _opened(tmp_path / "answers.jsonl")
    kept.keep(_answer("c1"))
    kept.keep(_answer("c1", "another"))
    for found in (kept, _opened(tmp_path / "answers.jsonl")):
        assert found.find("chat-a", "c1") == _answer("c1")
        assert found.find("chat-b", "c1") is None


def test_they_are_bounded_on_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST", 10)
    kept = _opened(tmp_path / "answers.jsonl")
    for number in range(35):
        kept.keep(_answer(f"c{number}"))
    assert (tmp_path / "answers.jsonl").read_bytes().count(b"\n") <= 20
    for found in (kept, _opened(tmp_path / "answers.jsonl")):
        assert [found.find("chat-a", f"c{number}") is not None for number in range(20, 35)] == [False] * 5 + [True] * 10


def test_a_torn_or_foreign_line_costs_no_more_than_itself(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    _opened(path).keep(_answer("c1"))
    path.write_bytes(b"no JSON\n" + path.read_bytes() + b'{"session":"chat-a","ca')
    kept = _opened(path)
    kept.keep(_answer("c2"))
    assert _opened(path).find("chat-a", "c1") == _answer("c1")
    assert _opened(path).find("chat-a", "c2") == _answer("c2")
