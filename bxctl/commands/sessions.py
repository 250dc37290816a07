"""`bxctl sessions` and `bxctl reopen`."""

from typing import Annotated, Any

import typer

from bxctl import exits, render
from bxctl.logs import records, said
from bxctl.options import AdminSocket, Home, Json, at_most, session_id
from bxctl.places import Box, find
from proto.faults import Fault
from proto.labels import Label
from proto.messages.broker import SessionLabels, SessionLabelsReply, SessionReopen, SessionState
from proto.messages.loop import Sessions, SessionsReply, SessionSummary


def sessions(
    session: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Show the log of this one", callback=session_id)
    ] = None,
    last: Annotated[int | None, typer.Option("--last", "-n", min=1, help="How many [default: 20]")] = None,
    labels: Annotated[bool, typer.Option("--labels", help="As brokerd holds them: kind, destination, label")] = False,
    home: Home = None,
    admin_socket: AdminSocket = None,
    json: Json = False,
) -> int:
    """List the sessions, newest first, or show the log of one.

    Example: bxctl sessions -n 5
    """
    box = find(home, None, admin_socket)
    if session is not None:
        return _show(box, session, json=json)
    if labels:
        return _labels(box, json=json)
    reply: SessionsReply = box.ask("owner-loop", Sessions(last=at_most(last)), SessionsReply)
    if json:
        render.as_json(reply)
        return exits.OK
    headers = ("session", "last spoke", "label", "first words")
    known = _known_labels(box) if any(one.class_ is None for one in reply.sessions) else {}
    rows = (_row(one, known) for one in reply.sessions)
    render.table(headers, rows, empty=f"no sessions yet; begin one with: {box.command('chat')}")
    if reply.total > len(reply.sessions):
        render.line(f"{reply.total:,} in all; more with: {box.command('sessions', '-n', str(reply.total))}")
    return exits.OK


def reopen(
    session: Annotated[str, typer.Argument(metavar="ID", help="The session's id", callback=session_id)],
    home: Home = None,
    admin_socket: AdminSocket = None,
    json: Json = False,
) -> int:
    """Reopen a session whose label was lost (runbook: session-state-lost), as secret and untrusted.

    Example: bxctl reopen chat-20260924-210203-0a1b2c
    """
    box = find(home, None, admin_socket)
    state: SessionState = box.ask("owner-broker", SessionReopen(session=session), SessionState)
    if json:
        render.as_json(state)
    else:
        render.line(f"reopened: {state.session} ·", str(Label(class_=state.class_, untrusted=state.untrusted)))
    return exits.OK


def _known_labels(box: Box) -> dict[str, Label]:
    """The labels as brokerd holds them, for sessions that loopd has not opened since it started."""
    try:
        reply: SessionLabelsReply = box.ask("owner-broker", SessionLabels(), SessionLabelsReply)
    except Fault:
        return {}
    return {one.session: Label(class_=one.class_, untrusted=one.untrusted) for one in reply.sessions}


def _row(one: SessionSummary, known: dict[str, Label]) -> tuple[str | None, ...]:
    label = known.get(one.session)
    if one.class_ is not None:
        label = Label(class_=one.class_, untrusted=bool(one.untrusted))
    state = "" if one.state == "open" else f"({one.state}) "
    return one.session, render.minute(one.updated), str(label) if label else None, f"{state}{one.first}"


def _show(box: Box, session: str, *, json: bool) -> int:
    found: list[dict[str, Any]] = list(records(box, session))
    if json:
        render.as_json(found)
        return exits.OK
    for record in found:
        for text in said(record):
            render.lines(text)
    return exits.OK


def _labels(box: Box, *, json: bool) -> int:
    reply: SessionLabelsReply = box.ask("owner-broker", SessionLabels(), SessionLabelsReply)
    if json:
        render.as_json(reply)
        return exits.OK
    headers = ("session", "kind", "by", "destination", "label", "open", "opened")
    rows = (
        (
            one.session,
            one.session_kind,
            one.principal,
            one.destination,
            str(Label(class_=one.class_, untrusted=one.untrusted)),
            "yes" if one.open else "no",
            one.opened,
        )
        for one in reply.sessions
    )
    render.table(headers, rows, empty="brokerd knows no session")
    return exits.OK
