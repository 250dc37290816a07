"""What a call needs of others, as it sees them: the books that reserve and book it, and what keeps it.

A call is booked before it is asked about, its row is in the file before it leaves, and it is settled once, whatever
becomes of it. What keeps it is never waited for.
"""

from typing import IO, NamedTuple, Protocol

from egressd.meter.usage import Usage
from egressd.store import Ended
from egressd.wire.http import Headers
from egressd.wire.redact import Redactor
from proto.messages.broker import EgressDecision, Spending
from proto.rules import Api, Auth


class Beginning(NamedTuple):
    """A metered call that begins: `input_bytes` of a body as it will leave, with what it names and does not hold.

    `output_tokens` is the most that the request wants of one answer, None where it names no maximum; `answers` how many
    answers it wants; `max_output` what its destination is taken to answer at most; `dearer` that it asks for a tier at
    another price than the model's own.
    """

    call: str
    session: str
    destination: str
    api: Api
    auth: Auth
    model: str
    input_bytes: int
    output_tokens: int | None
    answers: int
    max_output: int
    dearer: bool = False


class Ending(NamedTuple):
    """A call that has ended; status 0 when there was no answer.

    `sent` says that a byte of it may have left, `complete` that the whole answer was read.
    """

    call: str
    status: int
    ended: Ended
    sent: bool
    complete: bool
    usage: Usage
    model: str | None


class Reserved(Protocol):
    """What is set aside for a call: the totals with it, and whether it fits."""

    @property
    def spending(self) -> Spending | None:
        """What brokerd is told; None where nothing is limited."""
        ...

    @property
    def held(self) -> bool:
        """Whether there is room for the call."""
        ...


class Books(Protocol):
    """Rows and reservations."""

    async def begin(self, call: Beginning) -> Reserved:
        """Keep the row of a call, and wait for room for what it may spend. Settled once if this returns."""
        ...

    def need_written(self, call: str) -> None:
        """See that the row of a call is in the file, before a byte leaves.

        Raises:
            Fault: `internal`: it is not.

        """
        ...

    def settle(self, call: Ending) -> None:
        """Settle the row, and give back what was not spent."""
        ...


class Left(NamedTuple):
    """A call that brokerd allowed, as it leaves; `redactor` is a fresh one, for what must not be kept."""

    call: str
    session: str
    destination: str
    auth: Auth
    route: Api
    method: str
    path: str
    model: str
    decision: EgressDecision
    headers: Headers
    body: IO[bytes]
    redactor: Redactor


class Recorder(Protocol):
    """Takes what is kept of one call; never waits, never raises."""

    def head(self, status: int, headers: Headers) -> None:
        """The head of the answer."""
        ...

    def data(self, piece: bytes) -> None:
        """The next piece of the answer's body, keys masked."""
        ...

    def end(self, whole: bool, model: str | None) -> None:
        """The call is over; the request's body is still open."""
        ...


class Contexts(Protocol):
    """Keeps calls."""

    def leaves(self, call: Left) -> Recorder | None:
        """Begin to keep a call; None where nothing is kept."""
        ...
