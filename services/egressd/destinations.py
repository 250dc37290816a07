"""The destinations of grants.toml as they are now: read again when the file changes; unreadable means refused."""

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from egressd.stamp import Stamp, stamp_of
from proto import forms
from proto.faults import Fault
from proto.labels import DataClass
from proto.role.config import line_of
from proto.rules import FILE, Destination, Domain, Mattermost, Rules, Spend, load_rules
from proto.urls import parse_url

_UNIX: Final = "unix:"


class Target(NamedTuple):
    """Where a connection goes: a Unix socket, or a host and port, with TLS or (to loopback) without."""

    unix: str | None
    host: str
    port: int
    tls: bool


class Place(NamedTuple):
    """A destination: its rule, where it is, and what stands before the path and in the Host header of a request.

    `at` is None for a destination that has tunnels alone, or whose `base_url_from` is not set.
    """

    name: str
    rule: Destination
    at: Target | None
    prefix: str = ""
    authority: str = ""

    @property
    def ceiling(self) -> DataClass:
        """The highest class of a session whose bytes may go there."""
        return self.rule.ceiling

    def need_target(self) -> None:
        """Refuse a destination to which no request goes; raises as `target`."""
        _ = self.target

    @property
    def target(self) -> Target:
        """Where requests go.

        Raises:
            Fault: `credential-missing`, `route-unknown`: nowhere.

        """
        if self.at is not None:
            return self.at
        if self.rule.base_url_from is not None:
            missing = f"the address of the destination, {self.rule.base_url_from}, is not set"
            raise Fault("credential-missing", missing)
        raise Fault("route-unknown", "the destination has tunnels alone; no request is relayed to it")


Variables = Callable[[str], str | None]
"""The value of a variable that may name a base URL."""


class Destinations:
    """The destinations of a home."""

    def __init__(self, home: Path, variables: Variables | None = None) -> None:
        self._home = home
        self._path = home / FILE
        self._variables: Variables = variables or (lambda _: None)
        self._stamp: Stamp | None = None
        self._places: dict[str, Place] = {}
        self._named_urls: dict[str, str | None] = {}
        self._rules = Rules()
        self._problem: str | None = None

    def all(self) -> Mapping[str, Place]:
        """Every destination by its name.

        Raises:
            Fault: `rules-invalid`, with the file, the line and the key; or with the variable that names a base URL.

        """
        stamp = stamp_of(self._path)
        if stamp != self._stamp or any(self._variables(name) != url for name, url in self._named_urls.items()):
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

    def spend(self, name: str) -> Spend | None:
        """The limits of a destination, if it has any; as they were when the file was last looked at."""
        return self._rules.spend.get(name)

    @property
    def mattermost(self) -> Mattermost:
        """The owner on the Mattermost server, and the ceilings of its channels, as the file was last looked at."""
        return self._rules.mattermost

    def retention_days(self, domain: str) -> int:
        """How long what was recorded of a domain is kept, as the file was when it was last looked at."""
        return self._rules.domains.get(domain, Domain()).transcript_retention_days

    def _read(self) -> None:
        try:
            rules = load_rules(self._home)
            self._rules = rules
            names = {rule.base_url_from for rule in rules.destinations.values() if rule.base_url_from}
            self._named_urls = {name: self._variables(name) for name in names}
            self._places = {name: self._place(name, rule) for name, rule in rules.destinations.items()}
            self._problem = None
        except Fault as fault:
            self._places = {}
            self._problem = fault.message

    def _place(self, name: str, rule: Destination) -> Place:
        try:
            return place_of(name, rule, self._home, self._named_urls.get(rule.base_url_from or ""))
        except ValueError as error:
            keys = ("destinations", name, "base_url_from" if rule.base_url_from else "base_url")
            line = line_of(self._path.read_text(encoding="utf-8"), keys)
            raise Fault("config-invalid", f"{self._path}, line {line}: {'.'.join(keys)}: {error}") from None


def place_of(name: str, rule: Destination, home: Path, named_url: str | None = None) -> Place:
    """Where a rule's base_url leads, or the URL that its `base_url_from` names.

    Raises:
        ValueError: it cannot be connected to; the message says why, and quotes nothing.

    """
    base_url = named_url or rule.base_url
    if base_url is None:
        return Place(name, rule, None)
    if named_url is not None and not re.match(forms.BASE_URL.pattern, named_url):
        raise ValueError(f"its value is not {forms.BASE_URL.words}")
    if base_url.startswith(_UNIX):
        path = os.path.join(home, base_url.removeprefix(_UNIX))
        return Place(name, rule, Target(path, "localhost", 0, tls=False), "", "localhost")
    url = parse_url(base_url)
    if url.scheme == "http" and url.host != "localhost" and not ipaddress.ip_address(url.host).is_loopback:
        raise ValueError("http goes to loopback only")
    target = Target(None, url.host, url.port, tls=url.scheme == "https")
    return Place(name, rule, target, url.target.rstrip("/"), url.authority)
