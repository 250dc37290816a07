"""`bxctl destinations`, `verify`."""

from bxctl import exits, render
from bxctl.options import AdminSocket, Home, Json, MemorySocket
from bxctl.places import find
from proto.messages.egress import Destinations, DestinationsReply
from proto.messages.wire import JournalState, Verify, VerifyReply


def destinations(home: Home = None, json: Json = False) -> int:
    """List where bytes may go, up to which label, and whether each has its key.

    Example: bxctl destinations
    """
    reply: DestinationsReply = find(home).ask("owner-egress", Destinations(), DestinationsReply)
    if json:
        render.as_json(reply)
    else:
        headers = ("destination", "address", "api", "up to", "key", "ready")
        rows = (
            (
                one.destination,
                one.base_url or "-",
                ", ".join(one.apis),
                one.ceiling,
                one.credential,
                "yes" if one.ready else "no key",
            )
            for one in reply.destinations
        )
        render.table(headers, rows, empty="grants.toml names no destination")
    if reply.problem is None:
        return exits.OK
    render.problem(f"{reply.problem} (runbook: rules-invalid)")
    return exits.PROBLEMS


def verify(
    home: Home = None,
    memory_socket: MemorySocket = None,
    admin_socket: AdminSocket = None,
    json: Json = False,
) -> int:
    """Check the chains of every journal of memoryd and brokerd; exits 4 when one is broken.

    Example: bxctl verify
    """
    box = find(home, memory_socket, admin_socket)
    found: dict[str, VerifyReply] = {
        daemon: box.ask(row, Verify(), VerifyReply, timeout_s=600.0)
        for daemon, row in (("memoryd", "owner-memory"), ("brokerd", "owner-broker"))
    }
    bad = [one for reply in found.values() for one in reply.journals if one.first_bad is not None]
    code = exits.PROBLEMS if bad else exits.OK
    if json:
        render.as_json(found)
        return code
    rows = (_journal_row(daemon, one) for daemon, reply in found.items() for one in reply.journals)
    render.table(("kept by", "journal", "lines", "chain", "head"), rows, empty="no journal has a line yet")
    for one in bad:
        render.problem(f"{one.path}: the chain is broken at line {one.first_bad} (runbook: journal-damaged)")
    return code


def _journal_row(daemon: str, one: JournalState) -> tuple[str, ...]:
    chain = "holds" if one.first_bad is None else f"broken at line {one.first_bad}"
    return daemon, one.path, f"{one.lines:,}", chain, one.head
