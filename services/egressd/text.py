"""Text out of the bytes of a fetched body: its charset, what may stand in a text, how long it may be. Pure."""

import codecs
import re
from typing import Final, NamedTuple

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_NO_CHARSETS: Final = frozenset({"idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape", "utf_7"})
"""Codecs of Python that are no charset of the Web; some of them are slow, or give what was not sent."""


class Text(NamedTuple):
    """A text of at most a number of bytes in UTF-8; `truncated` says that there was more."""

    text: str
    truncated: bool


def plain(body: bytes, charset: str | None, limit_bytes: int) -> Text:
    """The text of a body that is text already."""
    return bounded(decode(body, charset).replace("\r\n", "\n"), limit_bytes)


def decode(body: bytes, charset: str | None) -> str:
    """The text of some bytes: a byte order mark before the named charset before UTF-8; what is wrong becomes U+FFFD."""
    for mark, name in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace")
    try:
        return body.decode(_known(charset) or "utf-8", "replace")
    except (LookupError, UnicodeError):
        return body.decode("utf-8", "replace")


def _known(charset: str | None) -> str | None:
    try:
        name = codecs.lookup(charset).name if charset else None
    except (LookupError, ValueError):
        return None
    if name == "iso8859-1":
        return "cp1252"  # as browsers read it (WHATWG Encoding)
    return None if name is not None and name.replace("-", "_") in _NO_CHARSETS else name


def bounded(text: str, limit_bytes: int) -> Text:
    """A text without control characters, cut to a length in UTF-8."""
    data = visible(text).encode("utf-8", "replace")
    if len(data) <= limit_bytes:
        return Text(data.decode("utf-8"), truncated=False)
    return Text(data[:limit_bytes].decode("utf-8", "ignore"), truncated=True)


def visible(text: str) -> str:
    """A text without control characters."""
    return _CONTROL.sub("", text)
