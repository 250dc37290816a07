"""The words that claim an act, and that all others pass as they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boxmaker_model.claims import NOTHING_DONE, Watch, claims_an_act

CLAIMS = [
    "Remember: saved as a note (untrusted): this session has read untrusted content",
    "It takes effect in the next session.",
    "takes effect in the next session",
    "Done: noted",
    "Done.",
    "Noted!",
    "memory.md updated (28 of 2,200 characters)",
    "I’ve saved that for you.",
    "Sure, I have noted your name.",
    "I'll remember that.",
    "Your note has been saved.",
    "Here is what I found: nothing",
    "我已经记住了。",
]
PLAIN = [
    "Hello! How can I help?",
    "Remember: wear a helmet.",
    "I remember that day well.",
    "The captain saved the ship.",
    "Done well, bread is a joy.",
    "Notes are useful.",
]


@pytest.mark.parametrize("text", CLAIMS)
def test_a_claim(text: str) -> None:
    assert claims_an_act(text)


@pytest.mark.parametrize("text", PLAIN)
def test_no_claim(text: str) -> None:
    assert not claims_an_act(text)


@given(st.lists(st.text(max_size=30), max_size=12))
def test_other_words_pass_unchanged(pieces: list[str]) -> None:
    watch = Watch()
    said = "".join(watch.take(piece) for piece in pieces) + watch.end()
    whole = "".join(pieces)
    assert said == whole or (claims_an_act(whole) and NOTHING_DONE in said)


@given(st.sampled_from(CLAIMS), st.integers(1, 9))
def test_a_claim_at_the_beginning_is_never_heard(claim: str, step: int) -> None:
    watch = Watch()
    said = "".join(watch.take(claim[start : start + step]) for start in range(0, min(len(claim), 80), step))
    assert said + watch.end() == NOTHING_DONE
    assert watch.caught
