"""How a turn looks on a terminal: the words as they stream, the tool that runs, the label when it rises.

Below the last line a spinner says what is waited for; it is drawn over by whatever comes next.
"""

import asyncio
import shutil
import sys
from collections.abc import Awaitable, Callable
from typing import Final

from bxctl.chat.view import ARGUMENT_CHARS, RESULT_CHARS, Event, approval_text, failure_text
from bxctl.chat.words import Words
from bxctl.chat.wrap import Wrap
from bxctl.render import coloured, flat, paint
from proto.labels import DataClass, Label
from proto.messages import loop

_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_SECONDS: Final = 0.1
_CLEAR_LINE: Final = "\r\x1b[K"
Question = Callable[[], Awaitable[bool | None]]


class Screen:
    """Shows the turns of one conversation; `label` is the session's as it was last heard of, `used` a turn's tokens."""

    def __init__(self, ask: Question, withdraw: Callable[[], None]) -> None:
        self._ask = ask
        self._withdraw = withdraw
        self._colours = coloured()
        self._words = Words()
        self._wrap = _wrap()
        self._streamed = ""
        self._in_line = False
        self._spinner: asyncio.Task[None] | None = None
        self.resumed: str | None = None
        self.opened: loop.ChatOpened | None = None
        self.label: Label | None = None
        self.used: tuple[int | None, int | None] = (None, None)

    def begin(self) -> None:
        """A turn begins."""
        self._words, self._wrap, self._streamed = Words(), _wrap(), ""
        self._wait_for("thinking")

    def end(self) -> None:
        """The turn is over, or is no longer watched."""
        self._still()
        self._break()
        print(flush=True)

    def expect(self, session: str | None) -> None:
        """Another session comes next: one that goes on, or a new one."""
        self.resumed = session
        self.opened = self.label = None
        self.used = (None, None)

    def show(self, event: Event) -> None:
        """Show one event."""
        self._still()
        match event:
            case loop.ChatOpened():
                self._open(event)
                self._wait_for("thinking")
            case loop.ChatDelta():
                self._say(event.text)
            case loop.ChatTool():
                self._tool(event)
            case loop.ChatApproval():
                self._line(approval_text(event), "yellow")
            case loop.ChatLabel():
                self._rise(event.class_, event.untrusted)
                self._wait_for("thinking")
            case loop.ChatDone():
                self.used = (event.input_tokens, event.output_tokens)
                if not self._streamed.strip():
                    self._say(event.text)
                self._break()
            case loop.ChatFailed():
                self.failed(failure_text(event))

    def failed(self, untrusted_text: str) -> None:
        """Say why there is no answer."""
        self._still()
        self._line(flat(untrusted_text), "red")

    async def approve(self, wanted: loop.ChatApproval) -> bool | None:
        """Ask in place."""
        self._still()
        answer = await self._ask()
        said = {True: "allowed", False: "denied", None: "decided elsewhere"}[answer]
        self._line(said, "dim")
        self._wait_for("waiting for the call")
        return answer

    def withdraw(self) -> None:
        """The question was answered elsewhere, or has lapsed."""
        self._withdraw()

    def stopping(self) -> None:
        """^C was pressed."""
        self._still()
        self._line("stopping … (^C again leaves the turn to end by itself)", "dim")

    def _open(self, opened: loop.ChatOpened) -> None:
        self.opened = opened
        self.label = Label(class_=opened.class_, untrusted=opened.untrusted)
        if opened.new:
            self._line(f"session {opened.session} · {opened.destination}/{opened.model} · {self.label}", "dim")

    def _say(self, untrusted_text: str) -> None:
        if not self._in_line:
            untrusted_text = untrusted_text.lstrip("\n")
        if not untrusted_text:
            return
        self._streamed += untrusted_text
        sys.stdout.write(self._wrap.put(self._words.safe(untrusted_text)))
        sys.stdout.flush()
        self._in_line = not untrusted_text.endswith("\n")

    def _tool(self, event: loop.ChatTool) -> None:
        if event.state == "running":
            self._line(f"▸ {flat(event.tool)} {flat(event.arguments, ARGUMENT_CHARS)}", "cyan")
            self._wait_for(f"running {flat(event.tool, 40)}")
            return
        mark, colour = ("✓", "green") if event.state == "ok" else ("✗", "yellow")
        first, *more = flat(event.text, RESULT_CHARS).split("\\n", 1)
        self._line(f"{mark} {flat(event.tool)}: {first}{' …' if more else ''}", colour)
        # What comes next is said after this result.
        self._streamed = ""
        self._wait_for("thinking")

    def _rise(self, class_: DataClass, untrusted: bool) -> None:
        label = Label(class_=class_, untrusted=untrusted)
        self._line(f"! the session is now {label} (it was {self.label})", "yellow")
        self.label = label

    def _line(self, text: str, colour: str) -> None:
        self._break()
        print(paint(text, colour, on=self._colours), flush=True)

    def _break(self) -> None:
        """End the line that words stand in."""
        if self._in_line:
            print(flush=True)
            self._in_line = False
            self._wrap = _wrap()

    def _wait_for(self, what: str) -> None:
        if self._in_line or not sys.stdout.isatty():
            return
        self._still()
        self._spinner = asyncio.ensure_future(self._spin(what))

    def _still(self) -> None:
        if self._spinner is not None:
            self._spinner.cancel()
            self._spinner = None
            sys.stdout.write(_CLEAR_LINE)
            sys.stdout.flush()

    async def _spin(self, what: str) -> None:
        while True:
            for frame in _FRAMES:
                sys.stdout.write(f"{_CLEAR_LINE}{paint(f'{frame} {what} …', 'dim', on=self._colours)}")
                sys.stdout.flush()
                await asyncio.sleep(_FRAME_SECONDS)


def _wrap() -> Wrap:
    return Wrap(shutil.get_terminal_size().columns)
