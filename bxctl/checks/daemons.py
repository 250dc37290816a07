"""What the daemons of a box say about themselves: whether they answer, and what is wrong with what each owns."""

from collections.abc import Callable, Iterator
from typing import Final

from bxctl.checks import Finding, Looked, editor
from bxctl.places import OWNER_ROWS, Box
from bxctl.render import flat
from proto.faults import Fault
from proto.messages.broker import Approvals, ApprovalsReply, Grants, GrantsReply, PolicyShow, PolicyShowReply
from proto.messages.egress import Destinations, DestinationsReply, Models, ModelsReply
from proto.messages.loop import Channels, ChannelsReply, Sessions, SessionsReply
from proto.messages.memory import MemoryShow, MemoryShowReply
from proto.messages.wire import Verify, VerifyReply
from proto.sockets import socket

_VERIFY_SECONDS: Final = 600.0


def answering(box: Box) -> tuple[Looked, frozenset[str]]:
    """Which daemons answer, and their rows."""
    rows = frozenset(row for row in OWNER_ROWS if box.answers(row))
    names = [socket(row).server for row in OWNER_ROWS if row in rows]
    if not rows:
        finding = Finding("daemons", "no daemon answers: the box is not up", box.start, "daemon-unreachable")
        return Looked("daemons", "none", (finding,)), rows
    findings = tuple(
        Finding(
            socket(row).server,
            f"does not answer at {box.socket(row)}",
            box.log_of(socket(row).server),
            "daemon-unreachable",
        )
        for row in OWNER_ROWS
        if row not in rows
    )
    return Looked("daemons", ", ".join(names), findings), rows


def memory(box: Box) -> Looked:
    """The identity files, what is left out of the block, the notes that recall leaves out, the index."""
    reply: MemoryShowReply = box.ask("owner-memory", MemoryShow(), MemoryShowReply)
    findings = [
        Finding(one.file, one.problem, editor(box.home / "memory" / one.file), "memory-unavailable")
        for one in reply.files
        if one.problem
    ]
    findings += [
        Finding(
            one.file,
            f"entry {one.number} is left out of every prompt by rule {one.rule}, {one.reason}: {flat(one.entry, 60)}",
            editor(box.home / "memory" / one.file),
            "memory-unavailable",
        )
        for one in reply.left_out
    ]
    findings += [
        Finding(
            "notes.md",
            f"note {one.number} is not shown by recall, {one.reason}: {flat(one.text, 60)}",
            editor(box.home / "memory" / "notes.md"),
            "memory-unavailable",
        )
        for one in reply.unread_notes
    ]
    findings += [
        Finding("index", f"the log {name} could not be read to its end", box.command("reindex"), "memory-index-damaged")
        for name in reply.index.damaged_logs
    ]
    sizes = ", ".join(f"{one.file} {one.chars:,}/{one.limit:,}" for one in reply.files)
    return Looked("memory", f"{sizes}; {reply.index.records:,} records indexed", tuple(findings))


def grants(box: Box) -> Looked:
    """The tool grants."""
    reply: GrantsReply = box.ask("owner-broker", Grants(), GrantsReply)
    mend = editor(box.home / "grants")
    findings = tuple(Finding("grants", problem, mend, "grants-invalid") for problem in reply.problems)
    return Looked("grants", f"{len(reply.grants)} in force", findings)


def policy(box: Box) -> Looked:
    """The policy."""
    reply: PolicyShowReply = box.ask("owner-broker", PolicyShow(), PolicyShowReply)
    mend = editor(box.home / "policy")
    findings = [Finding("policy", reply.problem, mend, "policy-invalid")] if reply.problem else []
    findings += [
        Finding(one.name, f"is left out of the policy: {one.problem}", mend, "policy-invalid", "note")
        for one in reply.modules
        if one.problem and one.problem != reply.problem
    ]
    return Looked("policy", f"{len(reply.modules)} modules", tuple(findings))


def approvals(box: Box) -> Looked:
    """Calls that wait for the owner; no problem, but something to know."""
    reply: ApprovalsReply = box.ask("owner-broker", Approvals(), ApprovalsReply)
    findings = tuple(
        Finding(one.approval, flat(one.text, 80), box.command("approve", one.approval), None, "note")
        for one in reply.approvals
    )
    return Looked("approvals", f"{len(reply.approvals)} waiting", findings)


def destinations(box: Box, wanted: str | None) -> Looked:
    """grants.toml as egressd reads it, and the key of the destination that new sessions want."""
    reply: DestinationsReply = box.ask("owner-egress", Destinations(), DestinationsReply)
    findings = [
        Finding(
            one.destination,
            f"new sessions use it, but {one.credential} is not set",
            box.command("credential", "set", one.credential or "NAME"),
            "credential-missing",
        )
        for one in reply.destinations
        if one.destination == wanted and not one.ready
    ]
    if reply.problem:
        findings.append(Finding("grants.toml", reply.problem, editor(box.home / "grants.toml"), "rules-invalid"))
    ready = sum(one.ready for one in reply.destinations)
    return Looked("destinations", f"{len(reply.destinations)}, {ready} with what they need", tuple(findings))


def prices(box: Box) -> Looked:
    """prices.toml as egressd reads it."""
    reply: ModelsReply = box.ask("owner-egress", Models(), ModelsReply)
    mend = editor(box.home / "prices.toml")
    findings = (Finding("prices.toml", reply.problem, mend, "prices-invalid"),) if reply.problem else ()
    named = {one.priced_as for one in reply.models} - {None}
    return Looked("prices", f"{len(named):,} models have one", findings)


def sessions(box: Box) -> Looked:
    """Sessions that cannot go on."""
    reply: SessionsReply = box.ask("owner-loop", Sessions(last=1000), SessionsReply)
    mends: dict[str, tuple[str, tuple[str, ...], str]] = {
        "damaged": ("its log is damaged", ("chat",), "session-damaged"),
        "lost": ("its label is lost", ("reopen", "{}"), "session-state-lost"),
    }
    findings = tuple(
        Finding(one.session, what, box.command(*(word.format(one.session) for word in words)), runbook)
        for one in reply.sessions
        if one.state in mends
        for what, words, runbook in [mends[one.state]]
    )
    return Looked("sessions", f"{reply.total:,}", findings)


def channels(box: Box) -> Looked:
    """The channels beside the owner's own that loopd's settings switch on, and whether each is connected."""
    reply: ChannelsReply = box.ask("owner-loop", Channels(), ChannelsReply)
    findings = tuple(
        Finding(one.channel, f"is not connected: {flat(one.why, 200)}", box.log_of("loopd"), one.runbook)
        for one in reply.channels
        if one.why is not None
    )
    return Looked("channels", ", ".join(one.channel for one in reply.channels) or "none", findings)


def journals(box: Box, row: str) -> Looked:
    """The chains of a daemon's journals."""
    reply: VerifyReply = box.ask(row, Verify(), VerifyReply, timeout_s=_VERIFY_SECONDS)
    findings = tuple(
        Finding(one.path, f"the chain is broken at line {one.first_bad}", box.command("verify"), "journal-damaged")
        for one in reply.journals
        if one.first_bad is not None
    )
    lines = sum(one.lines for one in reply.journals)
    return Looked(f"journals of {socket(row).server}", f"files: {len(reply.journals)}, lines: {lines:,}", findings)


def looks(box: Box, rows: frozenset[str], wanted: str | None) -> Iterator[Looked]:
    """Every look at the daemons that answer; one that fails is a finding itself."""
    table: tuple[tuple[str, str, Callable[[], Looked]], ...] = (
        ("owner-memory", "memory", lambda: memory(box)),
        ("owner-memory", "journals of memoryd", lambda: journals(box, "owner-memory")),
        ("owner-broker", "grants", lambda: grants(box)),
        ("owner-broker", "policy", lambda: policy(box)),
        ("owner-broker", "approvals", lambda: approvals(box)),
        ("owner-broker", "journals of brokerd", lambda: journals(box, "owner-broker")),
        ("owner-egress", "destinations", lambda: destinations(box, wanted)),
        ("owner-egress", "prices", lambda: prices(box)),
        ("owner-loop", "sessions", lambda: sessions(box)),
        ("owner-loop", "channels", lambda: channels(box)),
    )
    for row, name, look in table:
        if row in rows:
            try:
                yield look()
            except Fault as fault:
                finding = Finding(name, fault.message, box.log_of(socket(row).server), fault.runbook)
                yield Looked(name, "cannot be asked", (finding,))
