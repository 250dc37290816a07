"""`{home}/credentials.env`: a line `NAME=value` for each key, as egressd reads it and `bxctl credential` writes it."""

import re
from typing import Final

FILE: Final = "credentials.env"
GATEWAY_FILE: Final = "local/.virtual-key"
"""A gateway's key alone, without a name: a virtual key of LiteLLM, or a token that the gateway issued."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# What may stand in a header as one word; a key with a line feed in it would be a second header.
_VALUE: Final = re.compile(r"[\x21-\x7e]+\Z")
_LINE: Final = re.compile(r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>.*?)\s*\Z")


def is_name(text: str) -> bool:
    """Whether a text can be the name of a variable."""
    return _NAME.match(text) is not None


def is_value(text: str) -> bool:
    """Whether a text can be a key: printable ASCII without a space."""
    return _VALUE.match(text) is not None


def parse_line(line: str) -> tuple[str, str] | None:
    """The name and value of a line; quotes around a value are taken off. None for a line that says nothing."""
    found = _LINE.match(line)
    if found is None:
        return None
    value = found["value"]
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        value = value[1:-1]
    return found["name"], value


def replaced(text: str, name: str, value: str | None) -> str:
    """A file's text with a value for a name, or without the name; every other line stays as it is."""
    lines = text.splitlines(keepends=True)
    at = next((number for number, line in enumerate(lines) if _names(line, name)), len(lines))
    kept = [line for line in lines if not _names(line, name)]
    if value is not None:
        if at == len(lines) and kept and not kept[-1].endswith("\n"):
            kept[-1] += "\n"
        kept.insert(at, f"{name}={value}\n")
    return "".join(kept)


def _names(line: str, name: str) -> bool:
    found = parse_line(line.rstrip("\r\n"))
    return found is not None and found[0] == name


def parse(data: bytes) -> dict[str, str]:
    """The variables of a file; of a name that stands there twice, the last."""
    return dict(found for line in data.decode("utf-8", "replace").splitlines() if (found := parse_line(line)))
