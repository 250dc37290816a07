"""Where labels rise: on disk, then what waited under the old label is void, then egressd closes what is now too low.

Only after that is the result that raised it handed out. What failed on the way is owed: the next join, whatever it
brings, is answered no sooner than egressd was told and the line is in the audit log. After a start egressd is told once
for each session, since nobody knows what it had heard.
"""

import errno
import socket
from pathlib import Path
from typing import Final

import anyio

from brokerd.approvals import Approvals
from brokerd.audit import Audit
from brokerd.sessions import Sessions
from proto.faults import Fault
from proto.labels import PUBLIC, DataClass, Label
from proto.messages.broker import SessionLabel, SessionState
from proto.messages.wire import Ok
from proto.role.call import call
from proto.role.log import logger

_AGAIN_SECONDS: Final = 0.1
_NOBODY: Final = (errno.ENOENT, errno.ENOTDIR, errno.ECONNREFUSED)
"""What a connect says where no daemon listens."""
NOT_TOLD: Final = "egressd-unreachable"


class Taint:
    """Raises labels. Nothing here, and nothing anywhere else, lowers one."""

    def __init__(self, sessions: Sessions, approvals: Approvals, audit: Audit, egress: Path, notice_s: float) -> None:
        self._sessions = sessions
        self._approvals = approvals
        self._audit = audit
        self._egress = egress
        self._notice_s = notice_s
        self._told: dict[str, Label] = {}
        """For each session the label that egressd has closed under."""
        self._unwritten: dict[str, list[str]] = {}
        """For each session the causes whose line is not in the audit log yet."""

    def began(self, session: str, label: Label) -> None:
        """A new session begins at a label: egressd has nothing of it under way."""
        self._told[session] = label

    async def join(self, session: str, label: Label, cause: str) -> Label:
        """Join a label into a session's, and give the one that it has now; `cause` is for the audit log.

        Raises:
            Fault: `egressd-unreachable`: it is there and could not be told in time; nothing may be handed out.
            OSError: a disk failed; likewise.

        """
        after, rose = self._sessions.raise_label(session, label)
        if rose:
            self._unwritten.setdefault(session, []).append(cause)
        try:
            self._write(session, after)
        finally:
            if self._told.get(session, PUBLIC) != after:
                with anyio.CancelScope(shield=True):
                    await self._tell_egress(session, after)
        return after

    def distrust(self, session: str, cause: str) -> Label:
        """Make a session untrusted, on disk and in the audit log when this returns, and give its label.

        egressd is not told: it closes what is too low by class, which stays. So no daemon is called.

        Raises:
            OSError: a disk failed; nothing may be handed out.

        """
        after, rose = self._sessions.raise_label(session, Label(class_=DataClass.PUBLIC, untrusted=True))
        if rose:
            self._unwritten.setdefault(session, []).append(cause)
        self._write(session, after)
        told = self._told.get(session)
        if told is not None and told.class_ == after.class_:
            self._told[session] = after
        return after

    def _write(self, session: str, label: Label) -> None:
        """The audit's lines of what rose, and the end of what waited under the old label; again if that failed."""
        causes = self._unwritten.get(session)
        if not causes:
            return
        self._approvals.void(session, "label-rose")
        while causes:
            self._audit.session("label", session, label, cause=causes[0])
            causes.pop(0)

    async def _tell_egress(self, session: str, label: Label) -> None:
        """Tell egressd, again and again within the bound; one that is not there has nothing under way."""
        notice = SessionLabel(session=session, class_=label.class_, untrusted=label.untrusted)
        with anyio.move_on_after(self._notice_s):
            while not await self._heard(notice):  # noqa: ASYNC110  (another process's)
                await anyio.sleep(_AGAIN_SECONDS)
            self._told[session] = label
            return
        logger().error("egressd-not-told", session=session, waited_s=self._notice_s)
        raise Fault(NOT_TOLD)

    async def _heard(self, notice: SessionLabel) -> bool:
        try:
            await call(self._egress, notice, Ok, SessionState, timeout_s=self._notice_s)
        except Fault:
            return self._nobody_listens()
        return True

    def _nobody_listens(self) -> bool:
        """Whether a connect is refused for good. A queue that is full, or a file table, is no sign of that."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)
            return probe.connect_ex(str(self._egress)) in _NOBODY
