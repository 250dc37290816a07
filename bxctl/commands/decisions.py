"""`bxctl decisions`: the last lines of the audit log."""

from typing import Annotated, Any

import typer

from bxctl import exits, render
from bxctl.options import AdminSocket, Home, Json
from bxctl.places import find
from bxctl.render import flat
from proto.canon import compact
from proto.messages.broker import Decisions, DecisionsReply

_SHOWN_ELSEWHERE = frozenset({"prev", "hash", "salt", "time", "session", "verdict", "tool", "reasons"})
_MORE_CHARS = 160


def decisions(
    last: Annotated[int | None, typer.Argument(metavar="[N]", min=1, help="How many [default: 20]")] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Only this session's")] = None,
    home: Home = None,
    admin_socket: AdminSocket = None,
    json: Json = False,
) -> int:
    """List what was decided last, and why, newest last; --json gives the lines as they are stored.

    Example: bxctl decisions 50 --session chat-20260924-210203-0a1b2c
    """
    reply: DecisionsReply = find(home, None, admin_socket).ask(
        "owner-broker", Decisions(last=last, session=session), DecisionsReply
    )
    if json:
        render.as_json(reply)
        return exits.OK
    headers = ("time", "session", "verdict", "what", "reasons", "more")
    render.table(headers, map(_row, reply.decisions), empty="nothing was decided yet")
    return exits.OK


def _row(line: dict[str, Any]) -> tuple[str, ...]:
    rest = {name: value for name, value in line.items() if name not in _SHOWN_ELSEWHERE and value is not None}
    reasons = line.get("reasons")
    return (
        str(line.get("time", "")),
        str(line.get("session", "")),
        str(line.get("verdict", "")),
        str(line.get("tool") or line.get("kind") or ""),
        ", ".join(map(str, reasons)) if isinstance(reasons, list) else "",
        flat(compact(rest), _MORE_CHARS),
    )
