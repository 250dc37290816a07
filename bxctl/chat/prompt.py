"""The line that the owner types on: history, several lines by Alt-Enter, the session and its label below."""

import os
import shutil
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import DummyHistory, FileHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.shortcuts import CompleteStyle

from bxctl.chat.screen import Screen
from bxctl.places import Box
from proto.role import durable

_ANSWERS: Final = {"y": True, "yes": True, "n": False, "no": False}


class Prompt:
    """The owner's side of a conversation on a terminal."""

    def __init__(self, box: Box, commands: tuple[str, ...] = ()) -> None:
        self._commands = commands
        self._history = _history(box)
        self._line: PromptSession[str] | None = None
        self._question: PromptSession[str] = PromptSession(history=DummyHistory())
        self._withdrawn = False
        self._screen = Screen(self._allow, self._withdraw)

    def screen(self) -> Screen:
        """The screen that asks its questions here."""
        return self._screen

    async def read(self) -> str:
        """What the owner typed.

        Raises:
            EOFError: ^D on an empty line.
            KeyboardInterrupt: ^C.

        """
        if self._line is None:
            self._line = PromptSession(
                history=self._history,
                multiline=True,
                key_bindings=_enter_sends(),
                completer=WordCompleter(list(self._commands), sentence=True),
                complete_style=CompleteStyle.READLINE_LIKE,
                complete_while_typing=False,
                bottom_toolbar=self._toolbar,
                prompt_continuation="  ",
                enable_open_in_editor=False,
            )
        return await self._line.prompt_async([("bold", "› ")], handle_sigint=False)

    def _toolbar(self) -> StyleAndTextTuples:
        screen = self._screen
        if screen.opened is None or screen.label is None:
            begins = f"{screen.resumed} goes on" if screen.resumed else "a new session begins"
            return [("", f" {begins} with your next words · /help · ^D leaves")]
        opened = screen.opened
        tokens = " · ".join(
            f"{count:,} tokens {way}" for count, way in zip(screen.used, ("in", "out"), strict=True) if count
        )
        session, label, model = f" {opened.session} · ", str(screen.label), f" · {opened.destination}/{opened.model}"
        fits = len(session + label + model + tokens) + 3 <= shutil.get_terminal_size().columns
        return [("", session), ("bold", label), ("", f"{model} · {tokens}" if tokens and fits else model)]

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Keys that are pressed while a turn runs are not echoed into it; ^C stays a signal."""
        before = termios.tcgetattr(sys.stdin)
        during = [*before]
        during[3] &= ~(termios.ECHO | termios.ICANON)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, during)
        try:
            yield
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)

    async def _allow(self) -> bool | None:
        """A whole line that says yes or no; None when the question was withdrawn."""
        try:
            while not self._withdrawn:
                self._forget()
                said = await self._question.prompt_async(
                    [("bold", "allow it? [y/n] ")], handle_sigint=False, pre_run=self._leave_if_withdrawn
                )
                answer = _ANSWERS.get(said.strip().lower())
                if answer is not None and not self._withdrawn:
                    return answer
                if not self._withdrawn:
                    print("type yes or no")
        except (EOFError, KeyboardInterrupt):
            return False
        finally:
            self._withdrawn = False
            self._forget()
        return None

    def _forget(self) -> None:
        """Drop what was typed so far: before the question was seen it is no answer, after it no message."""
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
        clear_typeahead(self._question.app.input)

    def _withdraw(self) -> None:
        self._withdrawn = True
        if self._question.app.is_running:
            self._leave_if_withdrawn()

    def _leave_if_withdrawn(self) -> None:
        if self._withdrawn:
            self._question.app.exit(result="")


def _history(box: Box) -> FileHistory:
    durable.make_folder(box.own)
    path = box.own / "history"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    return FileHistory(str(path))


def _enter_sends() -> KeyBindings:
    keys = KeyBindings()
    keys.add("enter")(_send)
    keys.add("escape", "enter")(_new_line)
    return keys


def _send(event: KeyPressEvent) -> None:
    event.current_buffer.validate_and_handle()


def _new_line(event: KeyPressEvent) -> None:
    event.current_buffer.insert_text("\n")
