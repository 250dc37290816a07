"""Which entries a session was served, folded from the recall log: by the first time, once each.

The id of an entry is what its hit in the recall log says of it, so that what carries it can be found when it is erased:
a record of a session is `<session>/<epoch>/<record>`; a note is `notes/<session>/<time>/<position>`, since a hand may
move a note to another position, and its header keeps the session and the minute.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

Line = Mapping[str, Any]
MOST_SESSIONS: Final = 256
"""Of how many sessions the entries are held; those of another are read from the log again."""


class Served:
    """The entries by session. Used by one thread at a time."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, dict[str, str]] = OrderedDict()

    def note(self, line: Line) -> None:
        """Take up a line of the log, if its session is held; whatever a hand wrote there, it raises nothing."""
        found = self._sessions.get(str(line.get("session")))
        time, hits = line.get("time"), line.get("hits")
        if found is None or not isinstance(time, str) or not isinstance(hits, list):
            return
        for hit in hits:
            if isinstance(hit, dict):
                entry = entry_id(hit)
                found[entry] = min(time, found.get(entry, time))

    def begin(self, session: str) -> bool:
        """Hold a session from now on; whether it was not, so that its lines must be read."""
        if session in self._sessions:
            self._sessions.move_to_end(session)
            return False
        self._sessions[session] = {}
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return True

    def until(self, session: str, time: str) -> list[str]:
        """The ids that a session was served by a time (RFC 3339, UTC, whole seconds), first served first."""
        found = self._sessions.get(session, {})
        return [entry for entry, served in sorted(found.items(), key=lambda one: one[1]) if served <= time]


def entry_id(hit: Line) -> str:
    """The id of what a hit of the recall log is."""
    session, epoch, record = hit.get("session"), hit.get("epoch"), hit.get("record")
    if hit.get("kind") == "record":
        return f"{session}/{epoch}/{record}"
    return f"notes/{session}/{hit.get('time')}/{record}"
