"""The JSON body of a request, read strictly: what two readers could read differently is not relayed.

A key that stands twice is read as the first by some and as the last by others; `NaN`, a byte order mark or UTF-16 is
read by some alone. A key that differs from a known one in case or underscores alone is the known one to some (Go's
encoding/json, also with the long s and the sign of the kelvin; the JSON of protocol buffers), so fields are found by
their folded names.
"""

import json
from functools import cached_property, lru_cache
from typing import Any, Final

from proto.faults import Fault

_MOST_OPENED: Final = 250_000
_MOST_PARTED: Final = 1_000_000
"""Of brackets that open, and of commas and colons, those in texts counted in: a body of 32 MiB that is nothing else
would take a gigabyte to read, and keep everybody else waiting meanwhile. Ten million words have fewer."""
_LONGEST_USUAL_CHARS: Final = 63
_NOT_JSON: Final = "the body of the request is not a JSON object"
_TWICE: Final = "the body of the request names a field twice"


class Object(dict[str, Any]):
    """An object of a body. It is not changed once a field was looked for in it."""

    @cached_property
    def by_name(self) -> dict[str, list[Any]]:
        """The values by the folded names of their keys: several where some readers take one key for another."""
        found: dict[str, list[Any]] = {}
        for key, value in self.items():
            found.setdefault(folded(key), []).append(value)
        return found


def parse(data: bytes) -> Object:
    """The object that a body is.

    Raises:
        Fault: `request-invalid`: it is none, or could be read in two ways; the sentence quotes nothing of it.
            `request-too-large`: there is too much in it.

    """
    if data.count(b"{") + data.count(b"[") > _MOST_OPENED or data.count(b",") + data.count(b":") > _MOST_PARTED:
        raise Fault("request-too-large", "the body of the request has too many values")
    try:
        found = _decoder.decode(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Fault("request-invalid", _NOT_JSON) from None
    if not isinstance(found, Object):
        raise Fault("request-invalid", _NOT_JSON)
    return found


def field(value: Object, name: str) -> Any:
    """The value of a field by its folded name (lower case, no underscores), or None.

    Raises:
        Fault: `request-invalid`: two fields fold to it.

    """
    found = value.by_name.get(name)
    if found is None:
        return None
    if len(found) > 1:
        raise Fault("request-invalid", _TWICE)
    return found[0]


def object_of(value: Object, name: str) -> Object:
    """The object that a field is; empty for a field that is absent or null.

    Raises:
        Fault: `request-invalid`: it is something else.

    """
    found = field(value, name)
    if found is None:
        return Object()
    if not isinstance(found, Object):
        raise Fault("request-invalid", f"{name} in the body of the request is not an object")
    return found


def folded(key: str) -> str:
    """A key as those read it that heed neither case nor underscores."""
    return _usual_folded(key) if len(key) <= _LONGEST_USUAL_CHARS else _folded(key)


def _folded(key: str) -> str:
    return key.replace("_", "").replace("-", "").casefold()


_usual_folded: Final = lru_cache(4_096)(_folded)
"""For the short keys, which are nearly always the same ones."""


def _once(pairs: list[tuple[str, Any]]) -> Object:
    found = Object(pairs)
    if len(found) != len(pairs):
        raise Fault("request-invalid", _TWICE)
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(name)


_decoder: Final = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)
