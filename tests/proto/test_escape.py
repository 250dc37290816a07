"""What somebody else wrote is shown as one line of what can be seen; nearly all that is written is shown as it is."""

from hypothesis import given
from hypothesis import strategies as st

from proto.escape import _escape_char, escape


@given(st.text() | st.text(st.characters(max_codepoint=0x100)))
def test_a_text_is_shown_character_by_character(text: str) -> None:
    assert escape(text) == "".join(map(_escape_char, text))
