"""Canonical bytes: one JSON text for one value, so that two daemons hash alike.

UTF-8, keys in code point order, no white space, nothing escaped that need not be. Floats are refused: two writers may
print one differently.
"""

import hashlib
import json
from typing import Any


def canonical(value: Any) -> bytes:
    """The canonical bytes of a JSON value without floats.

    Raises:
        ValueError: the value holds a float, or something that JSON has not.

    """
    _refuse_floats(value)
    try:
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return text.encode()
    except (TypeError, UnicodeEncodeError) as error:
        raise ValueError(f"not a JSON value: {error}") from None


def digest(data: bytes) -> str:
    """SHA-256 in lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def compact(value: Any) -> str:
    """Compact JSON in the value's own order of keys, UTF-8 unescaped: how a person or an index is shown a call."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _refuse_floats(value: Any) -> None:
    if isinstance(value, float):
        raise ValueError("a float has no canonical form")  # noqa: TRY004  (one error for all that is not canonical)
    if isinstance(value, dict):
        for item in value.values():
            _refuse_floats(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_floats(item)
