"""WebSocket links: numbered events, and their resumption under an old connection id. No I/O.

As the real server does: a link outlives its connection; what was sent is kept for a while and what comes meanwhile
waits, so that a client that comes back with `connection_id` and the number that it expects next misses nothing and is
not greeted again. When that number is not kept any more it gets a new id, a new `hello` and numbers from 0.
"""

import json
from collections import deque
from collections.abc import Callable
from typing import Final

from tests.fakes.mattermost.faults import Faults
from tests.fakes.mattermost.state import Event, Map, State, new_id

_MOST_KEPT: Final = 128
_MOST_WAITING: Final = 256
Write = Callable[[str], None]


class Link:
    """One client's stream of events."""

    def __init__(self, user_id: str) -> None:
        self.user_id = user_id
        self.id = new_id()
        self.next = 0
        self.sent: deque[tuple[int, str]] = deque(maxlen=_MOST_KEPT)
        self.held: list[str] = []
        self.waiting: deque[Event] = deque(maxlen=_MOST_WAITING)
        self.write: Write | None = None


class Links:
    """Every link."""

    def __init__(self, state: State, faults: Faults) -> None:
        self._state = state
        self._faults = faults
        self._links: dict[str, Link] = {}

    def open(self, user_id: str, write: Write, connection_id: str = "", expects: int = 0) -> Link:
        """A link for a connection: an old one that goes on, or a new one, which begins with `hello`."""
        link = self._links.get(connection_id)
        if link is None or link.user_id != user_id or link.write is not None or not expects:
            link = Link(user_id)
            link.write = write
            self._greet(link)
        else:
            link.write = write
            self._resume(link, expects)
        return link

    def leave(self, link: Link) -> None:
        """The connection of a link has ended; the link waits for another."""
        link.write = None

    def forget(self) -> None:
        """The server has started again: no old link can be resumed."""
        self._links = {link.id: link for link in self._links.values() if link.write is not None}
        for link in self._links.values():
            link.sent.clear()
            link.next += _MOST_KEPT

    def skip(self, count: int) -> None:
        """Numbers that no event has: a gap that no resumption fills."""
        for link in self._links.values():
            link.next += count
            link.sent.clear()

    def tell(self, event: Event) -> None:
        """Send an event to those whom it is for."""
        for link in list(self._links.values()):
            if self._is_for(event, link):
                if link.write is None:
                    link.waiting.append(event)
                else:
                    self._send(link, event)

    def release(self) -> None:
        """Send what was held back."""
        for link in self._links.values():
            held, link.held = link.held, []
            for text in held:
                self._put(link, text)

    def _is_for(self, event: Event, link: Link) -> bool:
        if link.user_id == event.not_to or (event.user_id and link.user_id != event.user_id):
            return False
        return not event.channel_id or link.user_id in self._state.members[event.channel_id]

    def _greet(self, link: Link) -> None:
        self._links[link.id] = link
        data = {"connection_id": link.id, "server_hostname": "fake", "server_version": "11.9.0.0.0.true"}
        self._put(link, self._numbered(link, Event("hello", data, user_id=link.user_id)))

    def _resume(self, link: Link, expects: int) -> None:
        kept = [text for number, text in link.sent if number >= expects]
        is_whole = expects == link.next or any(number == expects for number, _ in link.sent)
        if not is_whole:
            del self._links[link.id]
            link.id, link.next = new_id(), 0
            link.sent.clear()
            self._greet(link)
            kept = []
        for text in kept:
            self._put(link, text)
        while link.waiting:
            self._send(link, link.waiting.popleft())

    def _send(self, link: Link, event: Event) -> None:
        text = self._numbered(link, event)
        if self._faults.take("dropping"):
            return
        if self._faults.take("holding"):
            link.held.append(text)
            return
        self._put(link, text)
        if self._faults.take("duplicating"):
            self._put(link, text)

    def _numbered(self, link: Link, event: Event) -> str:
        broadcast: Map = {
            "omit_users": {event.not_to: True} if event.not_to else None,
            "user_id": event.user_id,
            "channel_id": event.channel_id,
            "team_id": "",
            "connection_id": "",
            "omit_connection_id": "",
        }
        text = json.dumps({"event": event.name, "data": event.data, "broadcast": broadcast, "seq": link.next})
        link.sent.append((link.next, text))
        link.next += 1
        return text

    def _put(self, link: Link, text: str) -> None:
        if link.write is not None and not self._faults.silent:
            link.write(text)
