"""The sessions and their labels: durable, one file a session under `state/brokerd/sessions/`, and never lower.

A label is raised in memory first and then on disk: if the disk fails, the call fails, and no later decision is made
under the lower label.
"""

from pathlib import Path
from typing import Any, Final, Literal

import anyio
import msgspec

from proto.faults import Fault
from proto.ids import is_session_id
from proto.labels import DataClass, Label, join
from proto.messages.broker import SessionOpen, SessionRow
from proto.role import durable
from proto.role.log import logger

_SUFFIX: Final = ".json"
REOPENED: Final = Label(class_=DataClass.SECRET, untrusted=True)
"""What a session is whose label was lost."""


class Session(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session as it is stored. `via` is the socket that it was opened over; empty once the owner has reopened it."""

    session: str
    via: str
    session_kind: Literal["chat", "mattermost", "run"]
    principal: str
    principal_class: DataClass
    domain: str
    destination: str
    auth: str
    tree: str | None
    task: str | None
    class_: DataClass = msgspec.field(name="class")
    untrusted: bool
    open: bool
    opened: str

    @property
    def label(self) -> Label:
        """Its label."""
        return Label(class_=self.class_, untrusted=self.untrusted)

    def row(self) -> SessionRow:
        """As the owner is shown it."""
        return SessionRow(
            session=self.session,
            session_kind=self.session_kind,
            principal=self.principal,
            destination=self.destination,
            class_=self.class_,
            untrusted=self.untrusted,
            open=self.open,
            opened=self.opened,
        )


class Sessions:
    """Every session that brokerd knows, its label, and the lock under which its calls run one after the other."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sessions: dict[str, Session] = {}
        self._lost: set[str] = set()
        self._unsaved: set[str] = set()
        self._turns: dict[str, anyio.Lock] = {}

    def open(self) -> None:
        """Read what is stored; a file that cannot be read is a session whose state is lost."""
        durable.make_folder(self._folder)
        durable.sweep_temporaries(self._folder)
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            name = path.name.removesuffix(_SUFFIX)
            try:
                session = msgspec.json.decode(path.read_bytes(), type=Session)
                if session.session != name or not is_session_id(name):
                    raise ValueError("the file is another session's")
                self._sessions[name] = session
            except (OSError, ValueError) as error:
                self._lost.add(name)
                logger().error("session-state-lost", session=name, reason=str(error))

    def find(self, session: str) -> Session | None:
        """A session, open or closed; None when it is unknown or its state is lost."""
        return self._sessions.get(session)

    def find_open(self, session: str) -> Session:
        """A session that is open.

        Raises:
            Fault: `session-not-open`.

        """
        found = self._sessions.get(session)
        if found is None or not found.open:
            raise Fault("session-not-open")
        return found

    def all(self) -> list[Session]:
        """Every session, the newest first."""
        return sorted(self._sessions.values(), key=lambda session: (session.opened, session.session), reverse=True)

    def turn(self, session: str) -> anyio.Lock:
        """The lock of a session's calls; fair, in the order of asking. For one that is unknown, a lock of its own."""
        if session not in self._sessions:
            return anyio.Lock()
        return self._turns.setdefault(session, anyio.Lock())

    def begin(self, request: SessionOpen, via: str, opened: str) -> Session:
        """A new session.

        Raises:
            Fault: `session-exists`, also when its state is lost.

        """
        if request.session in self._sessions or request.session in self._lost:
            raise Fault("session-exists")
        return self._store(_from_request(request, via, opened, _label_of(request)))

    def resume(self, request: SessionOpen, via: str) -> Session:
        """Open a known session again; its label is what it was, or stricter if the request says so.

        Raises:
            Fault: `session-state-lost`: it is not known, or cannot be read.

        """
        known = self._sessions.get(request.session)
        if known is None:
            raise Fault("session-state-lost")
        label = join(known.label, _label_of(request))
        if not known.via:
            return self._store(_from_request(request, via, known.opened, label))
        changes: dict[str, Any] = {"destination": request.destination, "auth": request.auth, "open": True}
        return self._store(msgspec.structs.replace(known, **changes, class_=label.class_, untrusted=label.untrusted))

    def reopen(self, session: str, opened: str) -> Session:
        """Take a session up again whose state is lost: secret and untrusted.

        Raises:
            Fault: `session-exists`: its state is not lost.

        """
        if session in self._sessions:
            raise Fault("session-exists", "the session's label is known; there is nothing to reopen")
        damaged = self._path(session)
        if damaged.exists():
            damaged.rename(damaged.with_suffix(".damaged"))
        kinds: dict[str, Literal["chat", "mattermost", "run"]] = {"mm": "mattermost", "run": "run"}
        return self._store(
            Session(
                session=session,
                via="",
                session_kind=kinds.get(session.partition("-")[0], "chat"),
                principal="owner",
                principal_class=DataClass.SECRET,
                domain="dom-me",
                destination="local",
                auth="none",
                tree=None,
                task=None,
                class_=REOPENED.class_,
                untrusted=REOPENED.untrusted,
                open=True,
                opened=opened,
            )
        )

    def raise_label(self, session: str, label: Label) -> tuple[Label, bool]:
        """Join a label into a session's; the label that it has now, on disk, and whether it rose."""
        known = self._sessions[session]
        after = join(known.label, label)
        if after == known.label and session not in self._unsaved:
            return after, False
        raised = msgspec.structs.replace(known, class_=after.class_, untrusted=after.untrusted)
        self._sessions[session] = raised
        self._unsaved.add(session)
        self._store(raised)
        self._unsaved.discard(session)
        return after, True

    def close(self, session: str) -> Session:
        """Close a session; its label stays."""
        return self._store(msgspec.structs.replace(self._sessions[session], open=False))

    def _store(self, session: Session) -> Session:
        durable.replace(self._path(session.session), msgspec.json.encode(session))
        self._sessions[session.session] = session
        self._lost.discard(session.session)
        return session

    def _path(self, session: str) -> Path:
        return self._folder / f"{session}{_SUFFIX}"


def _label_of(request: SessionOpen) -> Label:
    return Label(class_=request.class_, untrusted=request.untrusted)


def _from_request(request: SessionOpen, via: str, opened: str, label: Label) -> Session:
    return Session(
        session=request.session,
        via=via,
        session_kind=request.session_kind,
        principal=request.principal,
        principal_class=request.principal_class,
        domain=request.domain,
        destination=request.destination,
        auth=request.auth,
        tree=request.tree,
        task=request.task,
        class_=label.class_,
        untrusted=label.untrusted,
        open=True,
        opened=opened,
    )
