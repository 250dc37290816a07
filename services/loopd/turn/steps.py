"""What a turn is told, and what it says is to be done next."""

from typing import NamedTuple

import msgspec

from loopd.session.records import Record, User
from loopd.tools.calls import RawCall, Wanted
from proto.labels import Label

# Events: what the driver tells the machine.


class Said(NamedTuple):
    """Something was said: the turn begins. `author` None is the owner; what is anybody else's has a label.

    `before` goes into the log ahead of it: what was said in a thread until then, which gets no answer of its own.
    """

    text: str
    author: str | None = None
    label: Label | None = None
    before: tuple[User, ...] = ()


class Resumed(NamedTuple):
    """The log holds what the owner said, and no answer: the turn goes on."""


class Answered(NamedTuple):
    """The model's whole answer; counts of tokens are None where the provider gave none."""

    content: str
    reasoning: str
    calls: tuple[RawCall, ...]
    finish: str
    input_tokens: int | None = None
    output_tokens: int | None = None


class Failed(NamedTuple):
    """The model, or a daemon on the way, failed: a code of `proto.faults` and the sentence for the owner."""

    code: str
    message: str


class Cancelled(NamedTuple):
    """The model call was cancelled; `content` is what it had said until then."""

    content: str


class ToolAnswered(NamedTuple):
    """brokerd's answer to the call that was asked for."""

    ok: bool
    text: str
    label: Label


class ToolFailed(NamedTuple):
    """The call got no answer. `ends_turn`: nothing more can be decided."""

    code: str
    message: str
    ends_turn: bool


class ApprovalAsked(NamedTuple):
    """The call waits for the owner."""

    approval: str
    text: str
    expires: str


class Stop(NamedTuple):
    """The owner wants the turn to end."""


Event = Said | Resumed | Answered | Failed | Cancelled | ToolAnswered | ToolFailed | ApprovalAsked | Stop


# Commands: what the driver does, in their order.


class Append(NamedTuple):
    """Put a record on disk, at the end of the log."""

    record: Record


class AskModel(NamedTuple):
    """Ask for the next answer to the log as it is; `final` without tools."""

    final: bool


class CancelModel(NamedTuple):
    """Stop reading the model's answer."""


class RunTool(NamedTuple):
    """Ask brokerd to decide and run a call."""

    wanted: Wanted


class Deny(NamedTuple):
    """Answer an approval with no."""

    approval: str


class Emit(NamedTuple):
    """Tell whoever listens."""

    message: msgspec.Struct


class Finish(NamedTuple):
    """The turn is over. With `code` None, `text` is the answer, whose words are in the log, and a note if it was cut;
    else it is the sentence for the owner.
    """

    code: str | None
    text: str
    input_tokens: int | None
    output_tokens: int | None


Command = Append | AskModel | CancelModel | RunTool | Deny | Emit | Finish
