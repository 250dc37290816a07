"""`bxctl approvals`, `approve`, `deny`: the tool calls that wait for the owner."""

from typing import Annotated

import typer

from bxctl import exits, render
from bxctl.options import AdminSocket, Home, Json, approval_id
from bxctl.places import Box, find
from proto.labels import Label
from proto.messages.broker import ApprovalAnswer, Approvals, ApprovalsReply
from proto.messages.wire import Ok

_ROW = "owner-broker"
Waiting = Annotated[str, typer.Argument(metavar="ID", help="The approval's id, ap-…", callback=approval_id)]


def approvals(home: Home = None, admin_socket: AdminSocket = None, json: Json = False) -> int:
    """List the tool calls that wait for you, oldest first.

    Example: bxctl approvals
    """
    reply: ApprovalsReply = find(home, None, admin_socket).ask(_ROW, Approvals(), ApprovalsReply)
    if json:
        render.as_json(reply)
        return exits.OK
    for one in reply.approvals:
        render.heading(one.approval, on=render.coloured())
        render.lines(f"  {one.text}")
        render.line(f"  {one.tool} in session {one.session} ·", str(Label(class_=one.class_, untrusted=one.untrusted)))
        render.line(f"  asked {one.asked}, lapses {one.expires}")
    if not reply.approvals:
        print("nothing waits for you")
    return exits.OK


def approve(approval: Waiting, home: Home = None, admin_socket: AdminSocket = None, json: Json = False) -> int:
    """Allow a waiting call; it runs at once.

    Example: bxctl approve ap-0123456789abcdef
    """
    return _answer(find(home, None, admin_socket), approval, allow=True, json=json)


def deny(approval: Waiting, home: Home = None, admin_socket: AdminSocket = None, json: Json = False) -> int:
    """Refuse a waiting call; the session is told that you said no.

    Example: bxctl deny ap-0123456789abcdef
    """
    return _answer(find(home, None, admin_socket), approval, allow=False, json=json)


def _answer(box: Box, approval: str, *, allow: bool, json: bool) -> int:
    reply = box.ask(_ROW, ApprovalAnswer(approval=approval, allow=allow, by="bxctl"), Ok)
    if json:
        render.as_json(reply)
    else:
        render.line(f"{'approved' if allow else 'denied'}: {approval}")
    return exits.OK
