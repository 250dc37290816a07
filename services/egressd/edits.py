"""Changing a part of a JSON text and nothing else of it: values are found with their places, and cut out of the text.

What is not changed stays as it was to the byte: numbers, the order of keys, white space, escapes.
"""

import json
from collections.abc import Container, Iterator
from typing import Any, Final, NamedTuple

_decoder: Final = json.JSONDecoder()
_BLANK: Final = " \t\n\r"


class Value(NamedTuple):
    """A value, and where in the text it stands; `key` for a member of an object, else empty."""

    start: int
    end: int
    value: Any
    key: str = ""


class Edit(NamedTuple):
    """What stands in a place from now on."""

    start: int
    end: int
    text: str


def members(text: str, start: int) -> Iterator[Value]:
    """The members of the object that stands at a place.

    Raises:
        ValueError: there is none.

    """
    at = _expect(text, start, "{")
    while text[at] != "}":
        if text[at] != '"':
            raise ValueError("no key")
        key, at = _decoder.raw_decode(text, at)
        at = _expect(text, _skip(text, at), ":")
        value, end = _decoder.raw_decode(text, at)
        yield Value(at, end, value, key)
        at = _next(text, end, "}")


def items(text: str, start: int) -> Iterator[Value]:
    """The items of the list that stands at a place.

    Raises:
        ValueError: there is none.

    """
    at = _expect(text, start, "[")
    while text[at] != "]":
        value, end = _decoder.raw_decode(text, at)
        yield Value(at, end, value)
        at = _next(text, end, "]")


def member(text: str, start: int, *keys: str) -> Value | None:
    """The member of one of some names in the object at a place, if it is there."""
    return next((one for one in members(text, start) if one.key in keys), None)


def beginning(text: str) -> int:
    """Where the value that a text is begins."""
    return _skip(text, 0)


def edited(text: str, edits: list[Edit]) -> str:
    """A text with edits that do not overlap."""
    pieces, at = [], 0
    for edit in sorted(edits):
        pieces += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*pieces, text[at:]])


def without(found: list[Value], gone: Container[int]) -> list[Edit]:
    """The edits that take some items out of a list, by where they start; a comma goes with each. Some item is kept."""
    edits, kept_one = [], False
    for number, item in enumerate(found):
        if item.start not in gone:
            kept_one = True
        elif kept_one:
            edits.append(Edit(found[number - 1].end, item.end, ""))
        else:
            edits.append(Edit(item.start, found[number + 1].start, ""))
    return edits


def _next(text: str, at: int, closing: str) -> int:
    """The place behind the comma after a value, or that of the closing bracket."""
    at = _skip(text, at)
    if text[at] == closing:
        return at
    at = _expect(text, at, ",")
    if text[at] == closing:
        raise ValueError("a comma before the end")
    return at


def _expect(text: str, at: int, wanted: str) -> int:
    if text[at : at + 1] != wanted:
        raise ValueError(f"no {wanted}")
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    """The next place that is not blank; an end is an error."""
    while at < len(text) and text[at] in _BLANK:
        at += 1
    if at == len(text):
        raise ValueError("the text breaks off")
    return at
