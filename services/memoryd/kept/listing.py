"""Which items there are, by their times, and when the bodies of each go: small texts in memory, and no I/O.

A key is `<time> <session> <call> <domain>`, so that keys are in the order of time, and a time alone stands before all
keys of that second.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from memoryd.kept.item import KINDS
from proto.messages.memory import KeptItem, KeptKind


class Where(NamedTuple):
    """Where an item lies."""

    kept: KeptKind
    domain: str
    session: str
    call: str


Slim = tuple[KeptKind, str, tuple[str, Where] | None]
"""What is kept in memory of an item: its kind, its key, and when its bodies go, if it has any."""


class Listing:
    """Every item of a holding."""

    def __init__(self) -> None:
        self._keys: dict[KeptKind, list[str]] = {kept: [] for kept in KINDS}
        self._due: list[tuple[str, Where]] = []

    def add(self, item: KeptItem) -> None:
        """Take up an item; one that is there is not taken twice."""
        keys, key = self._keys[item.kept], _key(item)
        at = bisect_left(keys, key)
        if keys[at : at + 1] != [key]:
            keys.insert(at, key)
            if item.erased is None:
                insort(self._due, _due(item))

    def add_all(self, items: Iterable[Slim]) -> None:
        """Take up what `slim` made of many items, at once."""
        due = set(self._due)
        found: dict[KeptKind, set[str]] = {kept: set(keys) for kept, keys in self._keys.items()}
        for kept, key, goes in items:
            found[kept].add(key)
            if goes is not None:
                due.add(goes)
        self._keys = {kept: sorted(keys) for kept, keys in found.items()}
        self._due = sorted(due)

    def newest(self, kept: KeptKind, session: str | None, before: str | None) -> Iterator[Where]:
        """The items of a kind as they are now, newest first, those before a time or a key."""
        return _backwards(kept, self._keys[kept].copy(), session, before)

    def take_due(self, now: str) -> list[Where]:
        """The items whose bodies go by now; they are forgotten as due."""
        count = bisect_left(self._due, (f"{now}!",))
        taken = [where for _, where in self._due[:count]]
        del self._due[:count]
        return taken

    def put_back(self, left: Iterable[Where], now: str) -> None:
        """Let what could not be erased be due again."""
        for where in left:
            insort(self._due, (now, where))


def _backwards(kept: KeptKind, keys: list[str], session: str | None, before: str | None) -> Iterator[Where]:
    of_session = None if session is None else f" {session} "
    for at in range(len(keys) if before is None else bisect_left(keys, before), 0, -1):
        key = keys[at - 1]
        if of_session is None or of_session in key:
            _, found, call, domain = key.split(" ")
            yield Where(kept, domain, found, call)


def slim(item: KeptItem) -> Slim:
    """What a listing keeps of an item."""
    return item.kept, _key(item), _due(item) if item.erased is None else None


def _key(item: KeptItem) -> str:
    return f"{item.time} {item.session} {item.call} {item.domain}"


def _due(item: KeptItem) -> tuple[str, Where]:
    return item.drop_after, Where(item.kept, item.domain, item.session, item.call)
