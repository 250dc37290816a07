"""`bxctl grants`: the tool grants in force."""

from bxctl import exits, render
from bxctl.options import AdminSocket, Home, Json
from bxctl.places import find
from proto.messages.broker import GrantRow, Grants, GrantsReply


def grants(home: Home = None, admin_socket: AdminSocket = None, json: Json = False) -> int:
    """List the tool grants in force; exits 4 when a file of them cannot be used, for then every call is denied.

    Example: bxctl grants
    """
    reply: GrantsReply = find(home, None, admin_socket).ask("owner-broker", Grants(), GrantsReply)
    code = exits.PROBLEMS if reply.problems else exits.OK
    if json:
        render.as_json(reply)
        return code
    headers = ("grant", "tool", "mode", "up to", "result", "only")
    render.table(headers, map(_row, reply.grants), empty="no grants")
    for problem in reply.problems:
        render.problem(f"{problem} (runbook: grants-invalid)")
    return code


def _row(grant: GrantRow) -> tuple[str, ...]:
    only = [
        f"{name} {', '.join(values)}"
        for name, values in (("hosts", grant.hosts), ("paths", grant.paths), ("patterns", grant.patterns))
        if values
    ]
    if grant.loopback:
        only.append("loopback")
    result = f"{grant.result_class.value} · untrusted" if grant.untrusted else grant.result_class.value
    return grant.grant, grant.tool, grant.mode, grant.max_taint.value, result, "; ".join(only)
