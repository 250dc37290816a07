"""Which items there are, by their times, and when the bodies of each go: small texts in memory, and no I/O.

A key is `<time> <session> <call> <domain>`, so that keys are in the order of time, and a time alone stands before all
keys of that second. What is due is `<time> <kept> <session> <call> <domain>` likewise.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Final

from memoryd.kept.item import KINDS, Slim, Where
from proto.messages.memory import KeptItem, KeptKind

_KINDS: Final[dict[str, KeptKind]] = {kept: kept for kept in KINDS}


class Listing:
    """Every item of a holding."""

    def __init__(self) -> None:
        self._keys: dict[KeptKind, list[str]] = {kept: [] for kept in KINDS}
        self._due: list[str] = []

    def add(self, item: Slim | KeptItem) -> None:
        """Take up an item; one that is there is not taken twice."""
        keys, key = self._keys[item.kept], _key(item)
        at = bisect_left(keys, key)
        if keys[at : at + 1] != [key]:
            keys.insert(at, key)
            if item.erased is None:
                insort(self._due, _due(item))

    def add_all(self, items: Iterable[Slim | KeptItem]) -> None:
        """Take up many items at once."""
        due = set(self._due)
        found: dict[KeptKind, set[str]] = {kept: set(keys) for kept, keys in self._keys.items()}
        for item in items:
            found[item.kept].add(_key(item))
            if item.erased is None:
                due.add(_due(item))
        self._keys = {kept: sorted(keys) for kept, keys in found.items()}
        self._due = sorted(due)

    def newest(self, kept: KeptKind, session: str | None, before: str | None) -> Iterator[Where]:
        """The items of a kind as they are now, newest first, those before a time or a key."""
        return _backwards(kept, self._keys[kept].copy(), session, before)

    def take_due(self, now: str) -> list[Where]:
        """The items whose bodies go by now; they are forgotten as due."""
        count = bisect_left(self._due, f"{now}!")
        taken = []
        for one in self._due[:count]:
            _, kept, session, call, domain = one.split(" ")
            taken.append(Where(_KINDS[kept], domain, session, call))
        del self._due[:count]
        return taken

    def put_back(self, left: Iterable[Where], now: str) -> None:
        """Let what could not be erased be due again."""
        for kept, domain, session, call in left:
            insort(self._due, f"{now} {kept} {session} {call} {domain}")


def _backwards(kept: KeptKind, keys: list[str], session: str | None, before: str | None) -> Iterator[Where]:
    of_session = None if session is None else f" {session} "
    for at in range(len(keys) if before is None else bisect_left(keys, before), 0, -1):
        key = keys[at - 1]
        if of_session is None or of_session in key:
            _, found, call, domain = key.split(" ")
            yield Where(kept, domain, found, call)


def _key(item: Slim | KeptItem) -> str:
    return f"{item.time} {item.session} {item.call} {item.domain}"


def _due(item: Slim | KeptItem) -> str:
    return f"{item.drop_after} {item.kept} {item.session} {item.call} {item.domain}"
