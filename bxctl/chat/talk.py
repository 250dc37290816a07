"""A conversation: on a terminal with a prompt, or line by line from a pipe."""

import sys
from collections.abc import AsyncIterator
from typing import Any, Final

import anyio.to_thread

from bxctl import edits, eventloop, exits, render
from bxctl.chat import once
from bxctl.chat.turn import Left, Turn
from bxctl.chat.view import JsonView, PlainView, View
from bxctl.logs import records, said
from bxctl.places import Box
from proto.faults import Fault
from proto.ids import is_session_id
from proto.messages.loop import Sessions, SessionsReply

_RESUMED_LINES: Final = 8
COMMANDS: Final = {
    "/help": "this list",
    "/new": "begin a new session",
    "/session": "say which session this is; with an id, go on with that one",
    "/sessions": "list the last sessions",
    "/memory": "the last edits of memory",
    "/quit": "leave (as ^D does)",
}


def talk(box: Box, session: str | None = None, *, json: bool = False) -> int:
    """Hold a conversation until ^D; the exit code."""
    return eventloop.run(talking, box, session, json)


async def talking(box: Box, session: str | None = None, json: bool = False) -> int:
    """As `talk`, in an event loop that runs."""
    if json or not render.is_conversation():
        return await _piped(
            box, session, JsonView() if json else PlainView(box, notes=sys.stderr.isatty()), tell=not json
        )
    return await Conversation(box, session).hold()


async def _piped(box: Box, session: str | None, view: View, *, tell: bool) -> int:
    """Each line of standard input is a turn; the code is that of the last failure."""
    code = exits.OK
    async for text in _stdin_lines():
        turn = Turn(box, session, view)
        try:
            end = await turn.say(text)
        except Left:
            return exits.INTERRUPTED
        code = once.settled(end, tell=tell) or code
        session = turn.session
    return code


async def _stdin_lines() -> AsyncIterator[str]:
    while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        if text := line.strip():
            yield text


class Conversation:
    """A conversation on a terminal."""

    def __init__(self, box: Box, session: str | None) -> None:
        from bxctl.chat.prompt import Prompt

        self._box = box
        self._session = session
        self._prompt = Prompt(box, tuple(COMMANDS))
        self._screen = self._prompt.screen()
        self._leaving = False

    async def hold(self) -> int:
        """Read, say, show, until the owner leaves."""
        if self._session is not None:
            self._resume(self._session)
        while not self._leaving:
            try:
                text = (await self._prompt.read()).strip()
            except EOFError:
                break
            except KeyboardInterrupt:
                print("^D leaves")
                continue
            if text.startswith("/"):
                await self._command(text)
            elif text:
                await self._say(text)
        return exits.OK

    async def _say(self, text: str) -> None:
        turn = Turn(self._box, self._session, self._screen)
        self._screen.begin()
        try:
            with self._prompt.silence():
                await turn.say(text)
        except Left:
            render.line("the turn goes on; see what came of it with: /session", str(turn.session or ""))
        except Fault as fault:
            self._screen.failed(str(fault))
        finally:
            self._screen.end()
        self._session = turn.session

    async def _command(self, text: str) -> None:
        name, _, rest = text.partition(" ")
        try:
            match name, rest.strip():
                case "/help", _:
                    for command, about in COMMANDS.items():
                        print(f"  {command:<10} {about}")
                    print("  Alt-Enter begins a new line; ^C stops an answer; ^R searches what you typed before")
                case "/new", _:
                    self._session = None
                    self._screen.expect(None)
                    print("a new session begins with your next words")
                case "/session", "":
                    print(f"session {self._session or 'none yet'}")
                case "/session", session if is_session_id(session):
                    self._resume(session)
                case "/session", other:
                    render.line(f"{other} is no id of a session; /sessions lists them")
                case "/sessions", _:
                    self._list()
                case "/memory", _:
                    edits.log(self._box, None, json=False)
                case "/quit" | "/exit", _:
                    self._leaving = True
                case _:
                    render.line(f"there is no {name}; /help lists what there is")
        except Fault as fault:
            render.problem(str(fault))

    def _resume(self, session: str) -> None:
        """Go on with a session, and show its last lines."""
        shown = [text for record in records(self._box, session) for text in said(record)]
        self._session = session
        self._screen.expect(session)
        if len(shown) > _RESUMED_LINES:
            print("  …")
        for text in shown[-_RESUMED_LINES:]:
            render.lines(text)

    def _list(self) -> None:
        reply: SessionsReply = self._box.ask("owner-loop", Sessions(last=10), SessionsReply)
        rows: Any = ((one.session, render.minute(one.updated), one.first) for one in reply.sessions)
        render.table(("session", "last spoke", "first words"), rows, empty="no sessions yet")
