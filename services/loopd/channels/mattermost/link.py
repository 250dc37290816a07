"""The WebSocket's life as a state machine: events and the time in, commands out, no I/O.

    RESTING ── its time is over ──▶ CONNECTING ── Opened ──▶ GREETING ── Heard hello ──▶ LIVE
       ▲                                │                        │                        │
       └──────── Broken, refused, silent for too long ───────────┴────────────────────────┘

A rest is longer after each break that follows at once, up to `most_s`, and a part of it is chance, so that many boxes
do not all come back in the same second.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

_FIRST_REST_S: Final = 0.5
_CONNECT_S: Final = 20.0
_STEADY_S: Final = 5.0
"""A connection that lived so long was no failure: the next rest is a short one again."""


class State(Enum):
    """What the link does now."""

    RESTING = "resting"
    CONNECTING = "connecting"
    GREETING = "greeting"
    LIVE = "live"


class Opened(NamedTuple):
    """The server took the upgrade."""


class Heard(NamedTuple):
    """Something came: any frame, a pong too. `hello` is the server's greeting."""

    hello: bool = False


class Broken(NamedTuple):
    """The connection could not be made, or is gone: `why` for the log; `rest_s` if the server said how long to wait."""

    why: str
    rest_s: float | None = None


class Tick(NamedTuple):
    """Time has passed."""


class Connect(NamedTuple):
    """Open a new connection."""


class Ping(NamedTuple):
    """Send a ping."""


class Drop(NamedTuple):
    """Close the connection; it is of no use any more."""

    why: str


Event = Opened | Heard | Broken | Tick
Command = Connect | Ping | Drop


class Link:
    """One WebSocket after the other. `chance` gives numbers from 0 up to 1."""

    def __init__(self, most_s: float, ping_s: float, chance: Callable[[], float]) -> None:
        self.state = State.RESTING
        self.deadline = 0.0
        """When `Tick` is due next; never later than this."""
        self._most_s = most_s
        self._ping_s = ping_s
        self._chance = chance
        self._failures = 0
        self._since = 0.0
        self._pinged = False

    def handle(self, event: Event, now_s: float) -> list[Command]:
        """What is to be done after an event at a time of a clock that only goes on."""
        match event:
            case Tick():
                return self._tick(now_s) if now_s >= self.deadline else []
            case Broken(why, rest_s):
                return self._rest(now_s, why, rest_s)
            case Opened() if self.state is State.CONNECTING:
                self.state, self.deadline = State.GREETING, now_s + _CONNECT_S
            case Heard(hello) if self.state in {State.GREETING, State.LIVE}:
                if hello and self.state is State.GREETING:
                    self.state, self._since = State.LIVE, now_s
                if self.state is State.LIVE:
                    self._pinged, self.deadline = False, now_s + self._ping_s
            case _:
                # The last word of a connection that was given up.
                pass
        return []

    def _tick(self, now_s: float) -> list[Command]:
        match self.state:
            case State.RESTING:
                self.state, self.deadline = State.CONNECTING, now_s + _CONNECT_S
                return [Connect()]
            case State.CONNECTING:
                return [Drop("no answer"), *self._rest(now_s, "no answer", None)]
            case State.GREETING:
                return [Drop("no hello"), *self._rest(now_s, "no hello", None)]
            case State.LIVE:
                if self._pinged:
                    # Half open: nothing, not even a pong, for twice the time.
                    return [Drop("no pong"), *self._rest(now_s, "no pong", None)]
                self._pinged, self.deadline = True, now_s + self._ping_s
                return [Ping()]

    def _rest(self, now_s: float, why: str, rest_s: float | None) -> list[Command]:
        if self.state is State.RESTING:
            return []
        if self.state is State.LIVE and now_s - self._since >= _STEADY_S:
            self._failures = 0
        self.state = State.RESTING
        self.deadline = (
            now_s + rest(self._failures, self._most_s, self._chance())
            if rest_s is None
            else (now_s + min(rest_s, self._most_s))
        )
        self._failures += 1
        return []


def rest(failures: int, most_s: float, chance: float) -> float:
    """How long to wait after so many failures in a row: doubling, bounded, the second half of it by chance."""
    whole = min(most_s, _FIRST_REST_S * 2.0 ** min(failures, 30))
    return whole / 2 + whole / 2 * chance
