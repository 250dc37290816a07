"""The owner's approvals: durable, bound to the arguments and the label that they were asked for, answered once.

One file each under `state/brokerd/approvals/` while it waits. After a restart nobody waits for an answer any more: what
still lies there lapses, as a denial.
"""

from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal

import anyio
import msgspec

from brokerd.audit import Audit
from proto.faults import Fault
from proto.ids import new_approval_id
from proto.labels import Label
from proto.messages.broker import Approval
from proto.role import durable
from proto.role.clock import Clock, stamp
from proto.role.log import logger
from proto.role.serve import Connection

Outcome = Literal["allowed", "denied", "lapsed", "label-rose", "session-not-open", "gone"]
"""How an approval ended. All but the first two are void: nobody answered in time, or what was asked is no longer so."""

_SUFFIX: Final = ".json"
_LOOK_SECONDS: Final = 0.25
"""How often a waiting call looks whether its requester is still there."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner is asked."""

    session: str
    call: str
    tool: str
    text: str
    arguments_sha256: str
    label: Label


class Waiting:
    """An approval that waits for its answer."""

    def __init__(self, approval: Approval, asked: Asked) -> None:
        self.approval = approval
        self.asked = asked
        self.outcome: Outcome | None = None
        self.settled = anyio.Event()

    def names(self) -> dict[str, Any]:
        """What names it in the audit log."""
        asked = self.asked
        return {
            "approval": self.approval.approval,
            "session": asked.session,
            "call": asked.call,
            "tool": asked.tool,
            "arguments_sha256": asked.arguments_sha256,
            "class": asked.label.class_.value,
            "untrusted": asked.label.untrusted,
        }


class Approvals:
    """The approvals that wait."""

    def __init__(self, folder: Path, audit: Audit, clock: Clock, lapse_s: float) -> None:
        self._folder = folder
        self._audit = audit
        self._clock = clock
        self._lapse_s = lapse_s
        self._waiting: dict[str, Waiting] = {}

    def open(self) -> None:
        """Let lapse what waited when brokerd ended."""
        durable.make_folder(self._folder)
        durable.sweep_temporaries(self._folder)
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            try:
                names = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
            except (OSError, msgspec.DecodeError) as error:
                logger().error("approval-unreadable", path=str(path), reason=str(error))
                names = {"approval": path.name.removesuffix(_SUFFIX)}
            self._audit.approval("lapsed", names, why="brokerd was started again")
            path.unlink()
        durable.sync_folder(self._folder)

    def ask(self, asked: Asked) -> Waiting:
        """A new approval, on disk and in the audit log."""
        now = self._clock()
        approval = Approval(
            approval=new_approval_id(),
            session=asked.session,
            call=asked.call,
            tool=asked.tool,
            text=asked.text,
            asked=stamp(now),
            expires=stamp(now + timedelta(seconds=self._lapse_s)),
            class_=asked.label.class_,
            untrusted=asked.label.untrusted,
        )
        waiting = Waiting(approval, asked)
        durable.replace(self._path(approval.approval), msgspec.json.encode(waiting.names()))
        self._audit.approval("asked", waiting.names(), expires=approval.expires)
        self._waiting[approval.approval] = waiting
        return waiting

    def waiting(self) -> list[Approval]:
        """What waits, the oldest first."""
        return [waiting.approval for waiting in self._waiting.values()]

    def find(self, approval: str) -> Waiting:
        """A waiting approval.

        Raises:
            Fault: `approval-unknown`: none of that id waits (any more).

        """
        found = self._waiting.get(approval)
        if found is None:
            raise Fault("approval-unknown")
        return found

    def answer(self, approval: str, *, allow: bool, by: str, via: str) -> None:
        """The owner's answer, on disk when this returns.

        Raises:
            Fault: `approval-unknown`.

        """
        self._settle(self.find(approval), "allowed" if allow else "denied", by=by, via=via)

    def void(self, session: str, outcome: Outcome) -> None:
        """End what a session waits for: its label rose, or it was closed."""
        for waiting in [one for one in self._waiting.values() if one.asked.session == session]:
            self._settle(waiting, outcome)

    def void_one(self, waiting: Waiting, outcome: Outcome) -> None:
        """End one that nobody waits for any more, if it has not ended."""
        if waiting.outcome is None:
            self._settle(waiting, outcome)

    async def wait(self, waiting: Waiting, connection: Connection) -> Outcome:
        """How it ends; a requester that hangs up makes it void."""
        try:
            with anyio.move_on_after(self._lapse_s):
                while waiting.outcome is None:
                    with anyio.move_on_after(_LOOK_SECONDS):
                        await waiting.settled.wait()
                    if waiting.outcome is None and connection.peer_gone():
                        self._settle(waiting, "gone")
        finally:
            self.void_one(waiting, "lapsed")
        return waiting.outcome or "lapsed"

    def _settle(self, waiting: Waiting, outcome: Outcome, **by: str) -> None:
        event = {"allowed": "answered", "denied": "answered", "lapsed": "lapsed"}.get(outcome, "void")
        self._audit.approval(event, waiting.names(), outcome=outcome, **by)
        waiting.outcome = outcome
        del self._waiting[waiting.approval.approval]
        waiting.settled.set()
        path = self._path(waiting.approval.approval)
        path.unlink(missing_ok=True)
        durable.sync_folder(self._folder)

    def _path(self, approval: str) -> Path:
        return self._folder / f"{approval}{_SUFFIX}"
