"""The owner's approvals: durable, bound to the arguments and the label that they were asked for, used once.

One file each under `state/brokerd/approvals/`. What waited when brokerd ended waits on, in the owner's list: his answer
is taken, and holds when the same call (session, call, tool, arguments, label) is asked again before it lapses. A label
that rises, a session that closes, and a requester that hangs up make it void.

The file of one that was answered stays until its call has ended: so a brokerd that was killed knows which calls it had
begun, and begins none of them again. A call that waits at a redirect had begun too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import anyio
import msgspec

from brokerd.audit import Audit
from proto.faults import Fault
from proto.ids import new_approval_id
from proto.labels import Label
from proto.messages.broker import Approval
from proto.role import durable
from proto.role.clock import Clock, parse, stamp
from proto.role.log import logger
from proto.role.serve import Connection

Outcome = Literal["allowed", "denied", "lapsed", "label-rose", "session-not-open", "gone"]
"""How an approval ended. All but the first two are void: nobody answered in time, or what was asked is no longer so."""

_SUFFIX: Final = ".json"
_LOOK_SECONDS: Final = 0.25
"""How often a waiting call looks whether its requester is still there."""


class Origin(NamedTuple):
    """A call as its session asked for it, before any redirect."""

    session: str
    call: str
    tool: str
    arguments_sha256: str


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner is asked: after `hop` redirects, with the arguments of this hop."""

    origin: Origin
    hop: int
    text: str
    arguments_sha256: str
    label: Label


class Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An approval as it is stored.

    `outcome` is the owner's answer that no call has used yet; with "begun" the call ran, or may have, when this was
    written. `origin_sha256` is the hash of the call's own arguments, where a redirect has others.
    """

    approval: Approval
    arguments_sha256: str
    outcome: Literal["allowed", "denied", "begun"] | None = None
    hop: int = 0
    origin_sha256: str | None = None

    @property
    def origin(self) -> Origin:
        """The call that it is about."""
        mine = self.approval
        return Origin(mine.session, mine.call, mine.tool, self.origin_sha256 or self.arguments_sha256)


class Waiting:
    """An approval that waits for its answer, or, when nobody hears of it (`heard`), for the call that it is about."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.approval = kept.approval
        self.arguments_sha256 = kept.arguments_sha256
        self.outcome: Outcome | None = "allowed" if kept.outcome == "begun" else kept.outcome
        self.heard = False
        self.left_s = 0.0
        self.settled = anyio.Event()

    @property
    def label(self) -> Label:
        """The label under which it was asked."""
        return Label(class_=self.approval.class_, untrusted=self.approval.untrusted)

    def answers(self, asked: Asked) -> bool:
        """Whether exactly this was asked."""
        mine = (self.kept.origin, self.kept.hop, self.arguments_sha256, self.label)
        return mine == (asked.origin, asked.hop, asked.arguments_sha256, asked.label)

    def names(self) -> dict[str, Any]:
        """What names it in the audit log."""
        return {
            "approval": self.approval.approval,
            "session": self.approval.session,
            "call": self.approval.call,
            "tool": self.approval.tool,
            "arguments_sha256": self.arguments_sha256,
            "class": self.approval.class_.value,
            "untrusted": self.approval.untrusted,
        }


class Approvals:
    """The approvals that wait, the oldest first."""

    def __init__(self, folder: Path, audit: Audit, clock: Clock, lapse_s: float) -> None:
        self._folder = folder
        self._audit = audit
        self._clock = clock
        self._lapse_s = lapse_s
        self._waiting: dict[str, Waiting] = {}
        self._begun: dict[str, Kept] = {}
        self._used: dict[Origin, list[Path]] = {}

    def open(self) -> None:
        """Take up what waited when brokerd ended; what cannot be read has lapsed."""
        durable.make_folder(self._folder)
        durable.sweep_temporaries(self._folder)
        found: list[Kept] = []
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            name = path.name.removesuffix(_SUFFIX)
            try:
                found.append(_kept(name, path.read_bytes()))
            except (OSError, ValueError) as error:
                logger().error("approval-unreadable", path=str(path), reason=str(error))
                self._audit.approval("lapsed", {"approval": name}, why="its file cannot be read")
                path.unlink()
        durable.sync_folder(self._folder)
        found.sort(key=lambda kept: (kept.approval.asked, kept.approval.approval))
        self._begun = {kept.approval.approval: kept for kept in found if kept.outcome == "begun"}
        self._waiting = {kept.approval.approval: Waiting(kept) for kept in found if kept.outcome != "begun"}
        for waiting in [one for one in self._waiting.values() if one.kept.hop]:
            self._void_begun(waiting)
        self._lapse()

    def was_begun(self, origin: Origin) -> bool:
        """Whether an earlier brokerd was killed in the middle of exactly this call: it must not be made again."""
        self._lapse()
        return any(kept.origin == origin for kept in self._begun.values())

    @contextmanager
    def under_way(self, origin: Origin) -> Iterator[None]:
        """The life of a call; at its end what it had used is forgotten, unless brokerd itself ends before."""
        try:
            yield
        except Exception:
            self._forget(origin)
            raise
        self._forget(origin)

    def ask(self, asked: Asked) -> Waiting:
        """An approval to wait for, on disk and in the audit log: one that is there for exactly this, or a new one."""
        self._lapse()
        for waiting in self._waiting.values():
            if not waiting.heard and waiting.answers(asked):
                waiting.heard = True
                waiting.left_s = min(self._lapse_s, (_expires(waiting) - self._clock()).total_seconds())
                if waiting.outcome is not None:
                    self._use(waiting)
                return waiting
        now = self._clock()
        approval = Approval(
            approval=new_approval_id(),
            session=asked.origin.session,
            call=asked.origin.call,
            tool=asked.origin.tool,
            text=asked.text,
            asked=stamp(now),
            expires=stamp(now + timedelta(seconds=self._lapse_s)),
            class_=asked.label.class_,
            untrusted=asked.label.untrusted,
        )
        kept = Kept(
            approval=approval,
            arguments_sha256=asked.arguments_sha256,
            hop=asked.hop,
            origin_sha256=asked.origin.arguments_sha256 if asked.hop else None,
        )
        waiting = Waiting(kept)
        durable.replace(self._path(approval.approval), msgspec.json.encode(kept))
        self._waiting[approval.approval] = waiting
        try:
            self._audit.approval("asked", waiting.names(), expires=approval.expires)
        except OSError:
            self._remove(waiting)
            raise
        waiting.heard, waiting.left_s = True, self._lapse_s
        return waiting

    def waiting(self) -> list[Approval]:
        """What waits for the owner, the oldest first."""
        self._lapse()
        return [waiting.approval for waiting in self._waiting.values() if waiting.outcome is None]

    def find(self, approval: str) -> Waiting:
        """An approval that waits for the owner.

        Raises:
            Fault: `approval-unknown`: none of that id waits (any more).

        """
        self._lapse()
        found = self._waiting.get(approval)
        if found is None or found.outcome is not None:
            raise Fault("approval-unknown")
        return found

    def answer(self, approval: str, *, allow: bool, by: str, via: str) -> None:
        """The owner's answer, on disk when this returns.

        Raises:
            Fault: `approval-unknown`.

        """
        waiting, outcome = self.find(approval), _outcome(allow)
        if waiting.heard:
            self._settle(waiting, outcome, by=by, via=via)
            return
        self._audit.approval("answered", waiting.names(), outcome=outcome, by=by, via=via)
        waiting.outcome = outcome
        self._keep(waiting, outcome)

    def void(self, session: str, outcome: Outcome) -> None:
        """End what a session waits for: its label rose, or it was closed."""
        for waiting in [one for one in self._waiting.values() if one.approval.session == session]:
            self._settle(waiting, outcome)

    def void_one(self, waiting: Waiting, outcome: Outcome) -> None:
        """End one that nobody waits for any more, if it has not ended."""
        if waiting.outcome is None:
            self._settle(waiting, outcome)

    async def wait(self, waiting: Waiting, connection: Connection) -> Outcome:
        """How it ends; a requester that hangs up makes it void. It waits on when brokerd itself ends."""
        with anyio.move_on_after(waiting.left_s):
            while waiting.outcome is None:
                with anyio.move_on_after(_LOOK_SECONDS):
                    await waiting.settled.wait()
                if waiting.outcome is None and connection.peer_gone():
                    self._settle(waiting, "gone")
        self.void_one(waiting, "lapsed")
        return waiting.outcome or "lapsed"

    def _lapse(self) -> None:
        """End what nobody hears of in time; what somebody hears of has a wait of its own."""
        now = self._clock()
        for waiting in [one for one in self._waiting.values() if not one.heard and _expires(one) <= now]:
            self._settle(waiting, "lapsed")
        for name in [name for name, kept in self._begun.items() if parse(kept.approval.expires) <= now]:
            del self._begun[name]
            self._unlink(self._path(name))

    def _void_begun(self, waiting: Waiting) -> None:
        """End one that waited at a redirect when brokerd was killed: its call cannot be taken up there again."""
        self._audit.approval("void", waiting.names(), outcome="gone")
        self._keep(waiting, "begun")
        self._begun[waiting.approval.approval] = waiting.kept
        del self._waiting[waiting.approval.approval]

    def _settle(self, waiting: Waiting, outcome: Outcome, **by: str) -> None:
        event = {"allowed": "answered", "denied": "answered", "lapsed": "lapsed"}.get(outcome, "void")
        self._audit.approval(event, waiting.names(), outcome=outcome, **by)
        waiting.outcome = outcome
        if event == "answered":
            self._use(waiting)
        else:
            self._remove(waiting)
        waiting.settled.set()

    def _use(self, waiting: Waiting) -> None:
        """Hand the owner's answer to the call that waits for it; its file tells of it until the call has ended."""
        del self._waiting[waiting.approval.approval]
        self._used.setdefault(waiting.kept.origin, []).append(self._path(waiting.approval.approval))
        self._keep(waiting, "begun" if waiting.outcome == "allowed" else "denied")

    def _forget(self, origin: Origin) -> None:
        for path in self._used.pop(origin, []):
            self._unlink(path)

    def _keep(self, waiting: Waiting, outcome: Literal["allowed", "denied", "begun"]) -> None:
        waiting.kept = msgspec.structs.replace(waiting.kept, outcome=outcome)
        durable.replace(self._path(waiting.approval.approval), msgspec.json.encode(waiting.kept))

    def _remove(self, waiting: Waiting) -> None:
        del self._waiting[waiting.approval.approval]
        self._unlink(self._path(waiting.approval.approval))

    def _unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        durable.sync_folder(self._folder)

    def _path(self, approval: str) -> Path:
        return self._folder / f"{approval}{_SUFFIX}"


def _kept(name: str, data: bytes) -> Kept:
    """A stored approval.

    Raises:
        ValueError: the file is none, or another's.

    """
    kept = msgspec.json.decode(data, type=Kept)
    if kept.approval.approval != name:
        raise ValueError("the file is another approval's")
    parse(kept.approval.expires)
    return kept


def _expires(waiting: Waiting) -> datetime:
    return parse(waiting.approval.expires)


def _outcome(allow: bool) -> Literal["allowed", "denied"]:
    return "allowed" if allow else "denied"
