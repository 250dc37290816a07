"""`bxctl decisions`: the last lines of the audit log."""

from typing import Annotated, Any

import typer

from bxctl import exits, render
from bxctl.options import AdminSocket, Home, Json, at_most, session_id
from bxctl.places import find
from bxctl.render import flat
from proto.canon import compact
from proto.messages.broker import Decisions, DecisionsReply

_SAID_LAST = frozenset({"approval", "ok", "method", "path"})
_REST_CHARS = 120


def decisions(
    last: Annotated[int | None, typer.Argument(metavar="[N]", min=1, help="How many [default: 20]")] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Only this session's", callback=session_id)] = None,
    home: Home = None,
    admin_socket: AdminSocket = None,
    json: Json = False,
) -> int:
    """List what was decided last, and why, newest last; --json gives the lines as they are stored.

    Example: bxctl decisions 50 --session chat-20260924-210203-0a1b2c
    """
    reply: DecisionsReply = find(home, None, admin_socket).ask(
        "owner-broker", Decisions(last=at_most(last), session=session), DecisionsReply
    )
    if json:
        render.as_json(reply)
        return exits.OK
    headers = ("time", "session", "said", "of", "because", "label", "with")
    render.table(headers, map(_row, reply.decisions), empty="nothing was decided yet")
    return exits.OK


def _row(line: dict[str, Any]) -> tuple[str | None, ...]:
    """A line of the audit log, whatever kind it has: a decision, a result, an approval, the life of a session."""
    subject = line.get("tool") or (f"to {line['destination']}" if line.get("destination") else None)
    reasons = line.get("reasons")
    rest = line.get("arguments") or {name: value for name, value in line.items() if name in _SAID_LAST}
    return (
        render.minute(str(line.get("time", ""))),
        _text(line.get("session")),
        _text(line.get("verdict") or line.get("event") or line.get("kind")),
        _text(subject),
        ", ".join(map(str, reasons)) if isinstance(reasons, list) else _text(line.get("by")),
        f"{line['class']}{' · untrusted' if line.get('untrusted') else ''}" if "class" in line else None,
        flat(rest if isinstance(rest, str) else compact(rest) if rest else "", _REST_CHARS),
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
