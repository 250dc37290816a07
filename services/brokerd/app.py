"""brokerd put together: the only place that knows all of it."""

from pathlib import Path
from typing import Any, NamedTuple

import anyio

import proto.role.config
from brokerd import facts
from brokerd.approvals import Approvals
from brokerd.audit import Audit
from brokerd.calls import Calls
from brokerd.config import Config
from brokerd.decide import Decider, EgressDecider
from brokerd.desk.egress import EgressDesk
from brokerd.desk.loop import LoopDesk
from brokerd.desk.owner import OwnerDesk
from brokerd.desk.tools import ToolsDesk
from brokerd.grants.shelf import GrantSet, Shelf
from brokerd.policy.inforce import Policy
from brokerd.runtime.composite import Runtime
from brokerd.sessions import Sessions
from brokerd.taint import Taint
from proto import sockets
from proto.faults import Fault
from proto.messages.broker import EgressAsk
from proto.role import migration, trace
from proto.role.clock import now
from proto.role.main import Arguments, Opening, Ready, home_of, open_sockets
from proto.role.serve import Server


class Stores(NamedTuple):
    """What brokerd keeps on disk."""

    audit: Audit
    sessions: Sessions
    approvals: Approvals

    def open(self) -> None:
        """Open all of it, the audit log first.

        Raises:
            Fault: `brokerd-start-failed`.

        """
        try:
            self.audit.open()
            self.sessions.open()
            self.approvals.open()
        except OSError as error:
            raise Fault("brokerd-start-failed", f"brokerd's state cannot be used: {error}") from None


async def run(arguments: Arguments, ready: Ready) -> None:
    """Run until cancelled."""
    config = proto.role.config.load(arguments.config, Config) if arguments.config else Config()
    home = home_of(arguments, config.paths.home)
    trace.start("brokerd", trace.Datagrams(sockets.socket("spans-egress").at(home)))
    with migration.held(home, "brokerd"):
        await _serve(home, config, ready)


async def _serve(home: Path, config: Config, ready: Ready) -> None:
    """The sockets are bound before any store is opened: a second brokerd ends there, and touches nothing."""
    stores = _stores(home, config)
    trials = trial_terms()
    tools = Policy(home, config.policy.timeout_s, trials)
    leaving = Policy(home, config.policy.timeout_s, trials)
    bound = open_sockets(_openings(home, config, stores, tools, leaving))
    stores.open()
    async with anyio.create_task_group() as tasks:
        for policy in (tools, leaving):
            tasks.start_soon(policy.run)
        for opening, listening in bound:
            server = Server(opening.row.path, opening.row.answers, opening.desk)
            tasks.start_soon(server.serve, listening)
        ready()
        await anyio.sleep_forever()


def _stores(home: Path, config: Config) -> Stores:
    state = home / "state/brokerd"
    audit = Audit(home, now)
    approvals = Approvals(state / "approvals", audit, now, config.approvals.lapse_s)
    return Stores(audit, Sessions(state / "sessions"), approvals)


def _openings(home: Path, config: Config, stores: Stores, tools: Policy, leaving: Policy) -> list[Opening]:
    audit, sessions, approvals = stores
    egress = _at(home, "broker-egress", None, config.egress.socket)
    memory = _at(home, "broker-memory", None, config.memory.socket)
    shelf = Shelf(home)
    decider = Decider(shelf, tools, now)
    taint = Taint(sessions, approvals, audit, egress, config.egress.notice_s)
    runtime = Runtime(memory, config.memory.timeout_s, egress, config.egress.timeout_s)
    calls = Calls(sessions, decider, approvals, audit, taint, runtime)
    loop = LoopDesk(sessions, taint, calls, approvals, audit, now)
    deciding = EgressDesk(sessions, EgressDecider(home, leaving, now), audit, taint)
    desks = (
        ("loop-broker", None, config.sockets.loop, loop),
        ("egress-broker", "broker.sock", config.sockets.egress, deciding),
        ("egress-broker", "tools.sock", config.sockets.tools, ToolsDesk(sessions, shelf, calls)),
        ("owner-broker", None, config.sockets.admin, OwnerDesk(sessions, approvals, decider, audit, now, home)),
    )
    return [
        Opening(sockets.socket(name, file), _at(home, name, file, configured), desk)
        for name, file, configured, desk in desks
    ]


def _at(home: Path, name: str, file: str | None, configured: str | None) -> Path:
    """Where a socket is: as configured (a relative path is under the home), or as the table has it."""
    return home / configured if configured else sockets.socket(name, file).at(home)


def trial_terms() -> dict[str, dict[str, Any]]:
    """For each entry point of the policy an input that any working policy answers: a session that nobody knows."""
    question = facts.Question(session=None, label=facts.strictest(), tool="recall", arguments={"query": "?"})
    ask = EgressAsk(session="chat-trial", call="trial", destination="local", method="POST", path="/")
    return {
        facts.TOOL: facts.of_tool(question, GrantSet(), now()).term,
        facts.EGRESS: facts.of_egress(ask, None, facts.strictest(), None, now()),
    }
