"""Texts of others in a post of ours, pure: no mention, no markup, no line that begins anything."""

import re
from typing import Final

from proto.escape import escape_lines

_LONGEST_RUN: Final = re.compile(r"`+")
_AT: Final = re.compile(r"@(?=[\w.])")
_PARTED: Final = re.compile(r"@(?=[\w.])|[:<](?=\S)|&(?=[#\w])")
_ESCAPED: Final = re.compile(r"([\\`*_{}\[\]()#+\-.!|~>])")
"""All that Mattermost's web client takes a backslash before (`mattermost/marked`); others it would show with theirs."""
_JOINER: Final = "\u2060"
"""A word joiner: it has no width, and what it parts is no name, link or emoji to the server, in code no name either."""
_DOLLAR: Final = "&#36;"
"""Two dollar signs make a formula, and no backslash keeps them from it."""


def block(text: str) -> str:
    """A text as a block of code, whose fence is longer than any run of backticks in it."""
    shown = _AT.sub(rf"\g<0>{_JOINER}", escape_lines(text))
    longest = max((len(run) for run in _LONGEST_RUN.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{shown}\n{fence}"


def plain(text: str) -> str:
    """A text as words in a line, with every sign that could be markup made none."""
    line = escape_lines(text).replace("\n", " ")
    return _ESCAPED.sub(r"\\\1", _PARTED.sub(rf"\g<0>{_JOINER}", line)).replace("$", _DOLLAR)
