"""What the acts of memoryd work on: its holdings, put together once by `app`."""

from dataclasses import dataclass

from memoryd.gate.check import Check
from memoryd.identity.shelf import Shelf
from memoryd.identity.writer import Writer
from memoryd.index import Index
from memoryd.kept import Holding, Inbox
from memoryd.trail.answers import Answers
from memoryd.trail.recalls import Recalls


@dataclass(frozen=True)
class Holdings:
    """The stores, the check as it is configured, whether writes of identity wait for the owner, and loopd's logs."""

    shelf: Shelf
    writer: Writer
    check: Check
    review: bool
    index: Index
    sessions: str
    recalls: Recalls
    answers: Answers
    kept: Holding
    inbox: Inbox
