"""The hash chain of a journal, pure: it survives the erasure of the texts in it.

A line is a JSON object. `prev` is the hash of the line before (64 zeros for the first), `hash` is SHA-256 of the
canonical line without `hash` and `salt`, in which each text of a text field is replaced by `{"hmac": …}`, the
HMAC-SHA-256 of the text under the line's own `salt`. Erasing a line puts those digests in the texts' place and takes
the salt away; the hash stays what it was.

Laws (tested): `check(seal(x))`; `check(erase(seal(x)))`; a changed byte of a text, a field, an order or a cut is found.
"""

import secrets
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final

from proto.canon import canonical, digest

ZERO: Final = "0" * 64
_OUTSIDE: Final = ("hash", "salt")
_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))


def seal(line: Mapping[str, Any], prev: str, text_fields: Iterable[str]) -> dict[str, Any]:
    """The line with `prev`, a new `salt` and its `hash`.

    Raises:
        ValueError: the line already holds one of the three, or is not canonical JSON.

    """
    if not {"prev", "salt", "hash"}.isdisjoint(line):
        raise ValueError("prev, salt and hash are the chain's own")
    sealed = {**line, "prev": prev, "salt": secrets.token_hex(16)}
    sealed["hash"] = line_hash(sealed, text_fields)
    return sealed


def line_hash(line: Mapping[str, Any], text_fields: Iterable[str]) -> str:
    """The hash that the line must carry, as it is or erased."""
    key = _key(line)
    fields = frozenset(text_fields)
    if fields.isdisjoint(line):
        return digest(canonical({name: value for name, value in line.items() if name not in _OUTSIDE}))
    parts = (
        canonical(name) + b":" + (_texts_json(value, key) if name in fields else canonical(value))
        for name, value in sorted(line.items())
        if name not in _OUTSIDE
    )
    return digest(b"{" + b",".join(parts) + b"}")


def erase(line: Mapping[str, Any], text_fields: Iterable[str]) -> dict[str, Any]:
    """The line with its texts and salt gone, and its hash still right."""
    return {**_digested(line, text_fields), "hash": line["hash"]}


def holds(line: Mapping[str, Any], prev: str, text_fields: Iterable[str]) -> bool:
    """Whether the line follows the line whose hash is `prev` and was not changed."""
    try:
        return line.get("prev") == prev and line.get("hash") == line_hash(line, text_fields)
    except (ValueError, RecursionError):
        return False


def _digested(line: Mapping[str, Any], text_fields: Iterable[str]) -> dict[str, Any]:
    key = _key(line)
    fields = frozenset(text_fields)
    return {
        name: _digest_texts(value, key) if name in fields else value
        for name, value in line.items()
        if name not in _OUTSIDE
    }


def _key(line: Mapping[str, Any]) -> bytes | None:
    salt = line.get("salt")
    return bytes.fromhex(salt) if isinstance(salt, str) else None


def _texts_json(value: Any, key: bytes | None) -> bytes:
    """`canonical(_digest_texts(value, key))`; a list of texts, which long journals are made of, goes a shorter way."""
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return b'[{"hmac":"%s"}]' % '"},{"hmac":"'.join(_hmacs(value, key)).encode()
    return canonical(_digest_texts(value, key))


def _digest_texts(value: Any, key: bytes | None) -> Any:
    if isinstance(value, str):
        return {"hmac": _hmacs([value], key)[0]}
    if isinstance(value, list):
        return [_digest_texts(item, key) for item in value]
    if isinstance(value, dict) and set(value) != {"hmac"}:
        return {name: _digest_texts(item, key) for name, item in value.items()}
    return value


def _hmacs(texts: list[str], key: bytes | None) -> list[str]:
    """HMAC-SHA-256 of each text (RFC 2104), spelled out: `hmac` takes more than twice as long for texts so short."""
    if key is None:
        raise ValueError("a text without its salt")
    padded = (key if len(key) <= _BLOCK_BYTES else sha256(key).digest()).ljust(_BLOCK_BYTES, b"\0")
    inner, outer = padded.translate(_INNER), padded.translate(_OUTER)
    return [sha256(outer + sha256(inner + text.encode()).digest()).hexdigest() for text in texts]
