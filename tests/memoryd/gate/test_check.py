"""The check: every rule, its sentence, and what the owner may let pass."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.gate.check import find
from memoryd.gate.invisible import INVISIBLE
from memoryd.gate.tables import DEFAULT_IGNORABLE, EXTENDED_PICTOGRAPHIC, Ranges

# Built from pieces, so that no file holds the literal marks.
MARKS = ["<" + "|", "|" + ">"]
TAGS = ["<" + slash + name + ">" for slash in ("", "/") for name in ("think", "tool_call", "THINK")]
PHRASES = [
    "ignore previous instructions",
    "ignore all previous",
    "disregard previous instructions",
    "disregard all previous",
    "new instructions:",
    "system prompt:",
]
HIDDEN = [0x034F, 0x115F, 0x3164, 0x2800, 0x2028, 0x2029, 0x200B, 0x200C, 0x200D, 0x202E, 0x2066, 0xFE0F, 0xFEFF, 0xAD]


def _rule(entry: str, *, allow_joiners: bool = False) -> int | None:
    finding = find(entry, allow_joiners=allow_joiners)
    return finding.rule if finding else None


def _sentence(entry: str) -> str | None:
    finding = find(entry)
    return finding.sentence if finding else None


def _points(table: Ranges) -> list[int]:
    return [point for first, last in table for point in range(first, last + 1)]


@pytest.mark.parametrize(
    ("table", "count", "hash"),
    [
        (DEFAULT_IGNORABLE, 4174, "7d189e136e1a357fda6b202fdc993b5a9149b69a3839a55209ce93b2c8ff0684"),
        (EXTENDED_PICTOGRAPHIC, 3537, "cb345212f9581e36cfd3ec62e027e3d429286d033127f1d926d237c307a7f740"),
    ],
    ids=["Default_Ignorable_Code_Point", "Extended_Pictographic"],
)
def test_the_tables_are_those_of_unicode_16(table: Ranges, count: int, hash: str) -> None:
    points = _points(table)
    assert len(points) == len(set(points)) == count
    assert points == sorted(points)
    assert hashlib.sha256(",".join(f"{point:X}" for point in points).encode()).hexdigest() == hash


@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0)])
def test_rule_1_is_every_control_character_but_newline_and_tab(code: int) -> None:
    expected = None if chr(code) in "\n\t" else "refused: the entry contains a control character (rule 1)"
    assert _sentence(f"a{chr(code)}b") == expected


@pytest.mark.parametrize("code", [*HIDDEN, 0xE0001, 0xE007F, 0xE01EF])
def test_rule_2_is_what_cannot_be_seen(code: int) -> None:
    sentence = "refused: the entry contains an invisible or direction-changing character (rule 2)"
    assert _sentence(f"a{chr(code)}b") == sentence


def test_rule_2_is_the_whole_table_and_nothing_else() -> None:
    hidden = {*_points(DEFAULT_IGNORABLE), 0x2800, 0x2028, 0x2029}
    everything = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    assert set(map(ord, INVISIBLE.findall(everything))) == hidden


@pytest.mark.parametrize("mark", [*MARKS, *TAGS])
def test_rule_3_is_chat_template_markup(mark: str) -> None:
    assert _sentence(f"a {mark} b") == "refused: the entry contains chat-template markup (rule 3)"


@pytest.mark.parametrize("entry", ["a < b | c > d", "<thinking>", "tool_call", "a <tool> b"])
def test_rule_3_is_nothing_more(entry: str) -> None:
    assert find(entry) is None


@pytest.mark.parametrize("phrase", PHRASES)
def test_rule_4_ignores_case_and_runs_of_spaces(phrase: str) -> None:
    sentence = "refused: the entry contains an instruction phrase (rule 4)"
    assert _sentence(f"now {phrase} and") == sentence
    assert _sentence(phrase.upper().replace(" ", " \n  ")) == sentence
    assert find(phrase.replace(" ", "-").rstrip(":")) is None


@pytest.mark.parametrize("line", ["# soul.md", "# memory.md (", "# user.md (0 of 1,375 characters)"])
def test_rule_5_is_a_heading_of_the_block(line: str) -> None:
    sentence = "refused: the entry contains a heading of the memory block (rule 5)"
    assert _sentence(line) == sentence
    assert _sentence(f"before\n{line}\nafter") == sentence
    assert find(f"see {line}") is None


def test_rule_5_needs_the_whole_line_for_the_soul() -> None:
    assert find("# soul.md is mine") is None
    assert find("# memory.md") is None


ZWNJ, ZWJ, TEXT_STYLE, EMOJI_STYLE, KEYCAP, IDEOGRAPHIC = "\u200c", "\u200d", "\ufe0e", "\ufe0f", "\u20e3", "\U000e0100"
NEEDED = [
    f"می{ZWNJ}خواهم",
    f"क्{ZWJ}ष",
    f"👨{ZWJ}👩{ZWJ}👧",
    f"❤{EMOJI_STYLE} love",
    f"❤{EMOJI_STYLE}{ZWJ}🔥",
    f"1{EMOJI_STYLE}{KEYCAP} first",
    f"👩🏽{ZWJ}🚀",
    f"葛{IDEOGRAPHIC}城",
]
NOT_NEEDED = [
    f"a{ZWNJ}b",
    f"{ZWJ}start",
    f"👨{ZWJ}a",
    f"a{EMOJI_STYLE}",
    f"👨{ZWJ}{ZWJ}👩",
    f"ا{ZWNJ}{ZWNJ}ب",
    f"1{EMOJI_STYLE}",
    f"a{IDEOGRAPHIC}",
    "क\u200bष",
    f"❤{EMOJI_STYLE}{EMOJI_STYLE}",
]


@pytest.mark.parametrize("entry", NEEDED)
def test_joiners_that_are_needed_pass_only_where_the_owner_allows_them(entry: str) -> None:
    assert _rule(entry) == 2
    assert _rule(entry, allow_joiners=True) is None


@pytest.mark.parametrize("entry", NOT_NEEDED)
def test_joiners_that_nothing_needs_never_pass(entry: str) -> None:
    assert _rule(entry, allow_joiners=True) == 2


HIDDEN_CHARS = ZWNJ + ZWJ + TEXT_STYLE + EMOJI_STYLE


@given(st.text(alphabet=st.sampled_from(f"{HIDDEN_CHARS}👩❤اक1#{KEYCAP}a ")), st.booleans())
def test_no_two_hidden_characters_pass_side_by_side(entry: str, allow: bool) -> None:
    """Emoji have one pair that belongs together: a style and the joiner after it."""
    pairs = [entry[at : at + 2] for at in range(len(entry) - 1) if set(entry[at : at + 2]) <= set(HIDDEN_CHARS)]
    if any(pair not in {EMOJI_STYLE + ZWJ, TEXT_STYLE + ZWJ} for pair in pairs):
        assert _rule(entry, allow_joiners=allow) == 2
