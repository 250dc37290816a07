"""Configuration: a TOML file into a frozen Struct. Every setting has a default; what is not known is an error.

An error names the file, the line and the key.
"""

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from proto.faults import Fault
from proto.forms import in_words

T = TypeVar("T")

_MOST_BYTES: Final = 1 << 20

_UNKNOWN: Final = re.compile(r"unknown field `(?P<key>[^`]*)`")
_AT: Final = re.compile(r" - at (?P<key>`key` in )?`(?P<path>[^`]*)`\Z")
_STEP: Final = re.compile(r"\[\.\.\.\]|[^.\[\]$]+")
_ANY: Final = "*"
"""Stands in a path of keys for one that msgspec does not name."""
_HEADER: Final = re.compile(r"^\s*\[\[?\s*(?P<name>[^\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY: Final = re.compile(r"^\s*(?P<key>\"[^\"]*\"|'[^']*'|[A-Za-z0-9_.-]+(?:\s*\.\s*[A-Za-z0-9_-]+)*)\s*=")


def load(path: Path, shape: type[T]) -> T:
    """The file's settings.

    Raises:
        Fault: `config-invalid`: the file cannot be read, is not TOML, or has a key or a value that is not known.

    """
    try:
        data = _read(path)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise Fault("config-invalid", f"{path}: cannot be read: {error}") from None
    if len(data) > _MOST_BYTES:
        raise Fault("config-invalid", f"{path}: longer than {_MOST_BYTES} bytes")
    return parse(text, str(path), shape)


def _read(path: Path) -> bytes:
    """As much of a regular file as settings may be, and a byte more; nothing that would block is waited for."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("it is not a regular file")
        return file.read(_MOST_BYTES + 1)


def parse(text: str, name: str, shape: type[T]) -> T:
    """The settings in a text; `name` is the file that errors speak of.

    Raises:
        Fault: `config-invalid`, as `load`.

    """
    try:
        settings = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Fault("config-invalid", f"{name}: not TOML: {error}") from None
    except RecursionError:
        raise Fault("config-invalid", f"{name}: nested too deep") from None
    try:
        return msgspec.convert(settings, shape)
    except msgspec.ValidationError as error:
        keys, what = _place(str(error))
        keys = _named(settings, shape, keys)
        line = line_of(text, keys)
        where = f"{name}, line {line}" if line else name
        shown = ".".join(keys) or "the file"
        raise Fault("config-invalid", f"{where}: {shown}: {what}") from None


def _place(message: str) -> tuple[tuple[str, ...], str]:
    """The keys to what an error of msgspec is about, and what is wrong there."""
    at = _AT.search(message)
    keys = tuple(_ANY if key == "[...]" else key for key in _STEP.findall(at["path"])) if at else ()
    if at and at["key"]:
        keys = (*keys, _ANY)
    what = in_words(message[: at.start()] if at else message)
    if unknown := _UNKNOWN.search(what):
        return (*keys, unknown["key"]), "unknown key"
    return keys, what


def _named(settings: dict[str, Any], shape: Any, keys: tuple[str, ...]) -> tuple[str, ...]:
    """The keys with each `*` named, which msgspec leaves out: the entry that is wrong when it stands alone."""
    for at in [number for number, key in enumerate(keys) if key == _ANY]:
        table: Any = settings
        for key in keys[:at]:
            table = table.get(key) if isinstance(table, dict) else None
        for name in table if isinstance(table, dict) else ():
            try:
                msgspec.convert(_alone(settings, (*keys[:at], name)), shape)
            except msgspec.ValidationError as error:
                if _place(str(error))[0] == keys:
                    keys = (*keys[:at], name, *keys[at + 1 :])
                    break
    return keys


def _alone(settings: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """The settings with, at each step of a path, only that key."""
    key, *rest = path
    value = settings[key]
    return {key: _alone(value, tuple(rest)) if rest else value}


def line_of(text: str, keys: tuple[str, ...]) -> int | None:
    """The number (from 1) of the line that sets a key, or else the nearest table around it."""
    wanted = [key for key in keys if not key.isdigit()]
    best: tuple[int, int] | None = None
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header:
            table = _split(header["name"])
        key = None if header else _KEY.match(line)
        here = table if key is None else table + _split(key["key"])
        depth = _common(here, wanted) if header or key else 0
        if depth and (best is None or depth > best[0]):
            best = (depth, number)
    return best[1] if best else None


def _split(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^.]+", dotted)]


def _common(here: list[str], wanted: list[str]) -> int:
    """How many keys of `wanted` a line's path spells, `*` standing for any; 0 when the line leads elsewhere."""
    for mine, theirs in zip(here, wanted, strict=False):
        if theirs not in (mine, _ANY):
            return 0
    return min(len(here), len(wanted))
