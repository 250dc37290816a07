"""The room of a session's context."""

from hypothesis import given
from hypothesis import strategies as st

from loopd.session.records import User
from loopd.session.window import Window, opened, text_tokens
from tests.loopd.logs import TEXT, TIME, baseline


def test_a_token_is_four_ascii_characters_or_one_other() -> None:
    assert [text_tokens(text) for text in ("", "abcd", "abcde", "記憶", "ab記")] == [0, 1, 2, 2, 2]


@given(TEXT, TEXT)
def test_an_estimate_grows_with_the_text(one: str, other: str) -> None:
    assert text_tokens(one) <= text_tokens(one + other) <= text_tokens(one) + text_tokens(other)


def test_the_room_counts_baseline_records_and_answer() -> None:
    begun = baseline()
    empty = opened(begun, [], 8192, 1024)
    assert 500 < empty.used < 1500
    assert empty.room == 8192 - 1024 - empty.used
    record = User(time=TIME, text="x" * 4000, author=None)
    assert opened(begun, [record], 8192, 1024) == empty.with_record(record)
    assert empty.room - empty.with_record(record).room > 1000
    assert empty.counted(3000).room == 8192 - 1024 - 3000


def test_a_small_context_keeps_three_quarters_for_the_prompt() -> None:
    assert opened(baseline(), [], 2048, 4096).output == 512


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=6000), st.integers(-100, 3000))
def test_a_result_never_fills_the_room(text: str, room: int) -> None:
    window = Window(context=10_000, output=0, used=10_000 - room)
    kept = window.clip_result(text, 2000)
    assert len(kept.encode()) <= 2000 + 60
    if room > 2000:
        assert text_tokens(kept) < room


def test_a_cut_is_marked() -> None:
    window = Window(context=100_000, output=0, used=0)
    assert window.clip_result("é" * 1000, 1024) == "é" * 512 + "\n… (cut: 512 of 1,000 characters)"
    assert window.clip_result("é" * 512, 1024) == "é" * 512
