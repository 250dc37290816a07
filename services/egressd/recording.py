"""What is kept of one model call while it is relayed: beside it, never waited for, with nothing in it that is secret.

A call costs its own bytes once: those of a long request are read from a second handle on its spool, when there is time.
"""

import io
import os
from collections.abc import Callable, Iterator
from typing import IO, Final

import msgspec

from egressd.outbox import PIECE_BYTES, Body
from egressd.ports import Left
from egressd.wire.http import Headers
from egressd.wire.redact import Redactor
from proto.escape import clip
from proto.messages.memory import ContextAbout, KeepBegin

_READ_BYTES: Final = 1 << 20
_SHORT_CHARS: Final = 1_000
_LONG_CHARS: Final = 16_000
_TO_UPSTREAM: Final = frozenset({
    b"anthropic-beta", b"anthropic-version", b"content-encoding", b"content-type", b"openai-beta", b"user-agent",
})  # fmt: skip
"""The headers of a request that are kept."""
_FROM_UPSTREAM: Final = frozenset({b"content-encoding", b"content-type", b"request-id", b"x-request-id"})
"""The headers of an answer that are kept."""


class Said(msgspec.Struct, frozen=True):
    """What is said of an answer's body."""

    whole: bool
    headers: list[tuple[str, str]]


class Taken:
    """A call that is over, to be written: what is said of it, and its bodies."""

    def __init__(self, begun: KeepBegin, left: Left, response: IO[bytes] | None, answer: Said) -> None:
        """Hold the bodies.

        Raises:
            OSError, ValueError: the request's body cannot be read.

        """
        self.begun = begun
        self._request_headers = _allowed(left.headers, _TO_UPSTREAM, left.redactor)
        self._redactor = left.redactor
        self._response = response
        self._answer = answer
        self._data, self._handle = _held(left.body)
        self.size_bytes = len(self._data)
        """What of it is in memory; the response is a spool."""

    def bodies(self) -> Iterator[Body]:
        """The bodies, each to be read once."""
        yield Body("request", True, self._request_headers, _masked(self._request(), self._redactor))
        yield Body("response", self._answer.whole, self._answer.headers, _read(self._response))

    def close(self) -> None:
        """Let the bodies go."""
        if self._handle is not None:
            os.close(self._handle)
        if self._response is not None:
            self._response.close()

    def _request(self) -> Iterator[bytes]:
        if self._handle is None:
            yield self._data
            return
        at = 0
        while piece := os.pread(self._handle, PIECE_BYTES, at):
            at += len(piece)
            yield piece


class Recording:
    """One call that is being kept. Nothing here waits or raises."""

    def __init__(
        self,
        left: Left,
        begun: KeepBegin,
        turn: int,
        *,
        spool: Callable[[], IO[bytes]],
        most_bytes: int,
        take: Callable[[Taken], None],
        lost: Callable[[KeepBegin, str], None],
    ) -> None:
        """`spool` makes a file for the answer, of which `most_bytes` are kept; what comes of it is taken or lost."""
        self._left = left
        self._begun = begun
        self._turn = turn
        self._spool = spool
        self._room_bytes = most_bytes
        self._take = take
        self._lost = lost
        self._status = 0
        self._headers: Headers = []
        self._response: IO[bytes] | None = None
        self._cut = False

    def head(self, status: int, headers: Headers) -> None:
        """The head of the answer."""
        self._status, self._headers = status, headers

    def data(self, piece: bytes) -> None:
        """The next piece of the answer's body, keys masked; what there is no room for is not kept."""
        kept = b"" if self._cut else piece[: self._room_bytes]
        self._cut = len(kept) < len(piece)
        if not kept:
            return
        try:
            if self._response is None:
                self._response = self._spool()
            self._response.write(kept)
            self._room_bytes -= len(kept)
        except OSError:
            self._cut = True

    def end(self, whole: bool, model: str | None) -> None:
        """The call is over; the request's body is still open."""
        about = _about(self._left, self._turn, self._status, model)
        begun = msgspec.structs.replace(self._begun, context=about)
        headers = _allowed(self._headers, _FROM_UPSTREAM, self._left.redactor)
        try:
            taken = Taken(begun, self._left, self._response, Said(whole and not self._cut, headers))
        except (OSError, ValueError) as error:
            if self._response is not None:
                self._response.close()
            self._lost(begun, str(error))
            return
        self._take(taken)


def _about(left: Left, turn: int, status: int, model: str | None) -> ContextAbout:
    """What is said of a call; the model is the one that answered, or else the one that was asked for."""
    return ContextAbout(
        turn=turn,
        destination=left.destination,
        auth=left.auth,
        route=left.route,
        method=left.method,
        path=clip(left.redactor.text(left.path), _LONG_CHARS),
        status=status,
        model=clip(model or left.model, _SHORT_CHARS),
    )


def _held(body: IO[bytes]) -> tuple[bytes, int | None]:
    """A request's body: its bytes, or a handle of its own on the file that holds them."""
    if isinstance(body, io.BytesIO):
        return body.getvalue(), None
    if body.seek(0, os.SEEK_END) > _READ_BYTES:
        body.flush()
        return b"", os.dup(body.fileno())
    body.seek(0)
    return body.read(), None


def _read(file: IO[bytes] | None) -> Iterator[bytes]:
    if file is None:
        return
    file.seek(0)
    while piece := file.read(PIECE_BYTES):
        yield piece


def _masked(pieces: Iterator[bytes], redactor: Redactor) -> Iterator[bytes]:
    for piece in pieces:
        yield redactor.feed(piece)
    yield redactor.end()


def _allowed(headers: Headers, names: frozenset[bytes], redactor: Redactor) -> list[tuple[str, str]]:
    return [
        (name.lower().decode("latin-1"), clip(redactor.whole(value).decode("latin-1"), _SHORT_CHARS))
        for name, value in headers
        if name.lower() in names
    ]
