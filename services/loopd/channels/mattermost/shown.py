"""Texts of others in a post of ours, pure: no mention, no markup, no line that begins anything."""

import re
from typing import Final

from proto.escape import escape_lines

_LONGEST_RUN: Final = re.compile(r"`+")
_AT: Final = re.compile(r"@(?=[\w.])")
_MARKUP: Final = re.compile(r"([\\`*_{}\[\]()#+\-.!|~<>:&^$])")
_NO_MENTION: Final = "@\u2060"
"""A word joiner: it has no width, and what it parts is no name to the server, inside code neither."""


def block(text: str) -> str:
    """A text as a block of code, whose fence is longer than any run of backticks in it."""
    shown = _AT.sub(_NO_MENTION, escape_lines(text))
    longest = max((len(run) for run in _LONGEST_RUN.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"


def plain(text: str) -> str:
    """A text as words in a line, with every sign that could be markup escaped."""
    return _MARKUP.sub(r"\\\1", _AT.sub(_NO_MENTION, escape_lines(text).replace("\n", " ")))
