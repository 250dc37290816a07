"""`bxctl chat`: talk with the box that is up."""

import os
import sys
from typing import Annotated

import typer

from bxctl import render
from bxctl.options import Home, session_id
from bxctl.places import Box, find
from bxctl.providers import VARIABLE
from proto.messages.loop import Sessions, SessionsReply


def chat(
    text: Annotated[list[str] | None, typer.Argument(metavar="[TEXT]", help="Say this and end; - reads stdin")] = None,
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="Go on with this session", callback=session_id)
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="Go on with the last session")] = False,
    home: Home = None,
    json: Annotated[bool, typer.Option("--json", help="Each event as a line of JSON")] = False,
) -> int:
    """Talk with the box. ^C stops an answer, ^D leaves, /help lists what else may be typed.

    Without a terminal each line of standard input is a turn. A call that waits for you is asked about in place, or
    answered with bxctl approve.

    Example: bxctl chat --session chat-20260924-210203-0a1b2c
    """
    from bxctl.chat import once, talk

    box = find(home)
    box.need()
    if os.environ.get(VARIABLE) and box.answers("owner-loop"):
        from bxctl.supervise.model import not_heeded

        if said := not_heeded(box, os.environ):
            render.problem(said)
    if last and session is None:
        session = _last(box)
    if text:
        question = sys.stdin.read() if text == ["-"] else " ".join(text)
        return once.ask(box, question, session, json=json)
    return talk.talk(box, session, json=json)


def _last(box: Box) -> str | None:
    reply: SessionsReply = box.ask("owner-loop", Sessions(last=1), SessionsReply)
    return reply.sessions[0].session if reply.sessions else None
