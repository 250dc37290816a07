"""What is remembered of turns without an answer."""

from pathlib import Path

from loopd.session.marks import NONE, Mark, Marks

SESSION = "chat-a"


def test_attempts_are_counted_for_one_turn(tmp_path: Path) -> None:
    marks = Marks(tmp_path / "turns")
    assert marks.get(SESSION) == NONE
    assert [marks.attempt(SESSION, 4), marks.attempt(SESSION, 4), marks.attempt(SESSION, 6)] == [0, 1, 0]
    assert Marks(tmp_path / "turns").get(SESSION) == Mark(record=6, attempts=1)


def test_an_end_is_kept_until_the_session_is_answered(tmp_path: Path) -> None:
    marks = Marks(tmp_path / "turns")
    marks.end(SESSION, 2, "model-error")
    assert marks.get(SESSION) == Mark(record=2, ended="model-error")
    assert not marks.is_full(SESSION)
    marks.end(SESSION, 4, "session-full")
    assert marks.is_full(SESSION)
    marks.clear(SESSION)
    assert marks.get(SESSION) == NONE
    assert list((tmp_path / "turns").iterdir()) == []


def test_a_mark_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    marks = Marks(tmp_path / "turns")
    for data in (b"", b"\xff", b"[]", b'{"record":"x"}'):
        (tmp_path / "turns" / f"{SESSION}.json").write_bytes(data)
        assert marks.get(SESSION) == NONE
