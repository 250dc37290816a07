"""The destinations of grants.toml as they are now: read again when the file changes; unreadable means refused."""

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from proto.faults import Fault
from proto.labels import DataClass
from proto.role.config import line_of
from proto.rules import FILE, Destination, load_rules
from proto.urls import parse_url

_UNIX: Final = "unix:"


class Target(NamedTuple):
    """Where a connection goes: a Unix socket, or a host and port, with TLS or (to loopback) without."""

    unix: str | None
    host: str
    port: int
    tls: bool


class Place(NamedTuple):
    """A destination: its rule, where it is, and what stands before the path and in the Host header of a request."""

    name: str
    rule: Destination
    target: Target
    prefix: str
    authority: str

    @property
    def ceiling(self) -> DataClass:
        """The highest class of a session whose bytes may go there."""
        return self.rule.ceiling


class Destinations:
    """The destinations of a home."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._path = home / FILE
        self._stamp: tuple[int, ...] | None = None
        self._places: dict[str, Place] = {}
        self._problem: str | None = None

    def all(self) -> Mapping[str, Place]:
        """Every destination by its name.

        Raises:
            Fault: `rules-invalid`, with the file, the line and the key.

        """
        stamp = self._stamp_now()
        if stamp != self._stamp:
            self._read()
            self._stamp = stamp
        if self._problem is not None:
            raise Fault("rules-invalid", f"refused: {self._problem}")
        return self._places

    def find(self, name: str) -> Place:
        """The destination of a name.

        Raises:
            Fault: `rules-invalid`, or `destination-unknown`.

        """
        place = self.all().get(name)
        if place is None:
            raise Fault("destination-unknown")
        return place

    def _read(self) -> None:
        try:
            rules = load_rules(self._home)
            self._places = {name: self._place(name, rule) for name, rule in rules.destinations.items()}
            self._problem = None
        except Fault as fault:
            self._places = {}
            self._problem = fault.message

    def _place(self, name: str, rule: Destination) -> Place:
        try:
            return place_of(name, rule, self._home)
        except ValueError as error:
            keys = ("destinations", name, "base_url")
            line = line_of(self._path.read_text(encoding="utf-8"), keys)
            raise Fault("config-invalid", f"{self._path}, line {line}: {'.'.join(keys)}: {error}") from None

    def _stamp_now(self) -> tuple[int, ...]:
        try:
            status = os.stat(self._path)
        except OSError as error:
            return (error.errno or 0,)
        return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def place_of(name: str, rule: Destination, home: Path) -> Place:
    """Where a rule's base_url leads.

    Raises:
        ValueError: it cannot be connected to; the message says why.

    """
    if rule.base_url is None:
        raise ValueError("a base_url is needed")
    if rule.base_url.startswith(_UNIX):
        path = os.path.join(home, rule.base_url.removeprefix(_UNIX))
        return Place(name, rule, Target(path, "localhost", 0, tls=False), "", "localhost")
    url = parse_url(rule.base_url)
    if url.scheme == "http" and url.host != "localhost" and not ipaddress.ip_address(url.host).is_loopback:
        raise ValueError("http goes to loopback only")
    target = Target(None, url.host, url.port, tls=url.scheme == "https")
    return Place(name, rule, target, url.target.rstrip("/"), url.authority)
