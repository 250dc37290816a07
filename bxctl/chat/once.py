"""One question and its answer: `bxctl chat TEXT`, `bxctl run TEXT`, `make run ASK=…`."""

import sys

from bxctl import eventloop, exits, render
from bxctl.chat.turn import Left, Turn
from bxctl.chat.view import JsonView, PlainView, View, failure_text
from bxctl.places import Box
from proto.messages import loop


def ask(box: Box, question: str, session: str | None = None, *, json: bool = False) -> int:
    """Ask, and print the answer; the exit code says whether there was one."""
    return eventloop.run(asked, box, question, session, json)


async def asked(box: Box, question: str, session: str | None = None, json: bool = False) -> int:
    """As `ask`, in an event loop that runs."""
    if json or not render.is_conversation():
        view: View = JsonView() if json else PlainView(box, notes=sys.stderr.isatty())
        return await _answer(Turn(box, session, view), question, tell_failure=not json)
    from bxctl.chat.prompt import Prompt

    prompt = Prompt(box)
    screen = prompt.screen()
    screen.begin()
    try:
        with prompt.silence():
            return await _answer(Turn(box, session, screen), question, tell_failure=False)
    finally:
        screen.end()


async def _answer(turn: Turn, question: str, *, tell_failure: bool) -> int:
    try:
        end = await turn.say(question)
    except Left:
        return exits.INTERRUPTED
    return settled(end, tell=tell_failure)


def settled(end: loop.ChatDone | loop.ChatFailed, *, tell: bool) -> int:
    """The exit code of a turn that has ended; a failure is told of on standard error."""
    if isinstance(end, loop.ChatDone):
        return exits.OK
    if tell:
        render.problem(failure_text(end))
    return exits.FAILED
