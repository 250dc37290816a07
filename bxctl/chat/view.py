"""What a turn's events are shown as: the interface of a view, and the two that need no terminal."""

import json
import sys
from typing import Protocol

import msgspec

from bxctl.chat.words import Words
from bxctl.places import Box
from bxctl.render import flat
from proto.escape import escape_lines
from proto.labels import Label
from proto.messages import loop

EVENTS = (
    loop.ChatOpened,
    loop.ChatDelta,
    loop.ChatTool,
    loop.ChatApproval,
    loop.ChatLabel,
    loop.ChatDone,
    loop.ChatFailed,
)
Event = (
    loop.ChatOpened
    | loop.ChatDelta
    | loop.ChatTool
    | loop.ChatApproval
    | loop.ChatLabel
    | loop.ChatDone
    | loop.ChatFailed
)
ARGUMENT_CHARS = 120
RESULT_CHARS = 160


class View(Protocol):
    """Shows the events of a turn."""

    def show(self, event: Event) -> None:
        """Show one event."""

    async def approve(self, wanted: loop.ChatApproval) -> bool | None:
        """The owner's answer to an approval, given in place; None when there is nobody to ask here."""

    def withdraw(self) -> None:
        """End a question of `approve` that was answered elsewhere, or has lapsed."""

    def stopping(self) -> None:
        """^C was pressed."""


class JsonView:
    """Each event as a line of JSON, in ASCII, with its kind."""

    def show(self, event: Event) -> None:
        """Print the event."""
        print(json.dumps(msgspec.to_builtins(event)), flush=True)

    async def approve(self, wanted: loop.ChatApproval) -> bool | None:
        """Nobody: a script answers by `bxctl approve`."""
        return None

    def withdraw(self) -> None:
        """Nothing was asked."""

    def stopping(self) -> None:
        """The last event will tell."""


class PlainView:
    """The answer alone on standard output; what happens meanwhile on standard error, if a person may be there."""

    def __init__(self, box: Box, *, notes: bool) -> None:
        self._box = box
        self._notes = notes

    def show(self, event: Event) -> None:
        """Print the answer when it is whole, and a note of what happens."""
        match event:
            case loop.ChatDone():
                print(Words().safe(event.text), flush=True)
            case loop.ChatTool(state="running"):
                self._note(f"{flat(event.tool)} {flat(event.arguments, ARGUMENT_CHARS)}")
            case loop.ChatTool():
                self._note(f"{flat(event.tool)}: {event.state}: {flat(event.text, RESULT_CHARS)}")
            case loop.ChatLabel():
                self._note(f"the session is now {Label(class_=event.class_, untrusted=event.untrusted)}")
            case _:
                pass

    async def approve(self, wanted: loop.ChatApproval) -> bool | None:
        """Nobody: say which command answers."""
        command = self._box.command("approve", wanted.approval)
        print(f"{approval_text(wanted)}\nallow it with: {command}", file=sys.stderr, flush=True)
        return None

    def withdraw(self) -> None:
        """Nothing was asked."""

    def stopping(self) -> None:
        """The last event will tell."""

    def _note(self, text: str) -> None:
        if self._notes:
            print(text, file=sys.stderr, flush=True)


def failure_text(failed: loop.ChatFailed) -> str:
    """Why there is no answer, and where to read on, if the sentence does not say so itself."""
    pointed = failed.runbook is None or "runbook:" in failed.message
    return failed.message if pointed else f"{failed.message} (runbook: {failed.runbook})"


def approval_text(wanted: loop.ChatApproval) -> str:
    """What an approval asks, and until when."""
    return f"a tool call waits for you (until {flat(wanted.expires)}):\n  {escape_lines(wanted.text)}"
