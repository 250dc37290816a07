"""How a grant fits a call: hosts, paths and patterns compared in Python, so that the policy sees booleans alone.

A host is named exactly (`example.org`, an address), by what it ends in (`*.example.org`: any name under it, not
itself), or by `*`. A path's `*` and `?` stop at `/`, `**` does not. A command's `*` and `?` stop at what a shell would
read as another command.
"""

import ipaddress
import posixpath
import re
from functools import lru_cache
from typing import Final

import msgspec

from proto.tools import CommandArguments, FetchArguments, PathArguments, ToolArguments
from proto.urls import Url, parse_url

_LONGEST_PATTERN_CHARS: Final = 512
_NO_SHELL: Final = r"[^;&|<>$`\n\r(){}]"
_LOOPBACK_NAME: Final = "localhost"


class Subject(msgspec.Struct, frozen=True):
    """What a call reaches, at most one of the three."""

    url: Url | None = None
    path: str | None = None
    command: str | None = None


class Fit(msgspec.Struct, frozen=True):
    """Which of a grant's conditions a call meets; a condition that the tool has not is met."""

    scheme: bool = True
    host: bool = True
    host_exact: bool = True
    path: bool = True
    pattern: bool = True

    @property
    def names(self) -> bool:
        """Whether the grant is about what the call reaches, over whatever scheme."""
        return self.host and self.path and self.pattern

    @property
    def covers(self) -> bool:
        """Whether the call meets all of the grant's conditions."""
        return self.scheme and self.names


class Constraints(msgspec.Struct, frozen=True):
    """What a grant names; nothing named covers everything."""

    hosts: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    loopback: bool = False


def subject_of(arguments: ToolArguments) -> Subject:
    """What the arguments of a call reach.

    Raises:
        ValueError: the URL cannot be asked for, or the path is not one; the message says why.

    """
    match arguments:
        case FetchArguments(url=url):
            return Subject(url=parse_url(url))
        case PathArguments(path=path):
            return Subject(path=_checked_path(path))
        case CommandArguments(command=command):
            return Subject(command=command)
        case _:
            return Subject()


def fit(named: Constraints, subject: Subject) -> Fit:
    """How what a grant names fits what a call reaches."""
    return Fit(
        scheme=subject.url is None or _scheme(named, subject.url),
        host=subject.url is None or not named.hosts or any(_host(p, subject.url.host) for p in named.hosts),
        host_exact=subject.url is None or subject.url.host in map(_plain, named.hosts),
        path=subject.path is None or not named.paths or any(_glob(p).match(subject.path) for p in named.paths),
        pattern=subject.command is None
        or not named.patterns
        or any(_words(p).match(subject.command) for p in named.patterns),
    )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its own name or address."""
    if host == _LOOPBACK_NAME or host.endswith(f".{_LOOPBACK_NAME}"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_problem(pattern: str) -> str | None:
    """What is wrong with a host of a grant."""
    name = pattern.removeprefix("*.")
    if pattern == "*":
        return None
    try:
        plain = parse_url(f"https://{_bracketed(name)}/").host
    except ValueError:
        return "a host is a name, an address, *.name or *"
    if plain != _plain(name):
        return "a host is written without scheme, port and path, in lower case"
    return "an address has no names under it" if name != pattern and _is_address(name) else None


def path_problem(pattern: str) -> str | None:
    """What is wrong with a path of a grant."""
    if not pattern.startswith("/") or posixpath.normpath(pattern) != pattern or pattern.startswith("//"):
        return "a path is absolute, without . and .."
    return _too_long(pattern)


def pattern_problem(pattern: str) -> str | None:
    """What is wrong with a pattern of a grant."""
    return "a pattern is not empty" if not pattern.strip() else _too_long(pattern)


def _too_long(pattern: str) -> str | None:
    return f"longer than {_LONGEST_PATTERN_CHARS} characters" if len(pattern) > _LONGEST_PATTERN_CHARS else None


def _scheme(named: Constraints, url: Url) -> bool:
    return url.scheme == "https" or (named.loopback and is_loopback(url.host))


def _host(pattern: str, host: str) -> bool:
    if pattern == "*":
        return True
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and not _is_address(host)
    return _plain(pattern) == host


def _plain(name: str) -> str:
    """An address in the one form that a URL's host has; a name as it is."""
    try:
        return ipaddress.ip_address(name.strip("[]")).compressed
    except ValueError:
        return name


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name and not name.startswith("[") else name


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _checked_path(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise ValueError("a path is absolute")
    if posixpath.normpath(path) not in (path, path.rstrip("/") or "/"):
        raise ValueError("a path has no . and .. in it")
    return posixpath.normpath(path)


@lru_cache(maxsize=1024)
def _glob(pattern: str) -> re.Pattern[str]:
    pieces = (re.escape(piece) if piece[0] not in "*?" else _PATH_SIGNS[piece] for piece in _pieces(pattern))
    return re.compile("".join(pieces) + r"\Z", re.DOTALL)


@lru_cache(maxsize=1024)
def _words(pattern: str) -> re.Pattern[str]:
    signs = {"?": _NO_SHELL, "*": f"{_NO_SHELL}*", "**": f"{_NO_SHELL}*"}
    pieces = (re.escape(piece) if piece[0] not in "*?" else signs[piece] for piece in _pieces(pattern))
    return re.compile("".join(pieces) + r"\Z", re.DOTALL)


_PATH_SIGNS: Final = {"?": "[^/]", "*": "[^/]*", "**": ".*"}


def _pieces(pattern: str) -> list[str]:
    return re.findall(r"\*\*|[*?]|[^*?]+", pattern)
