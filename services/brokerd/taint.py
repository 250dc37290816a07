"""Where labels rise: on disk, then what waited under the old label is void, then egressd closes what is now too low.

Only after that is the result that raised it handed out.
"""

from pathlib import Path

import anyio

from brokerd.approvals import Approvals
from brokerd.audit import Audit
from brokerd.sessions import Sessions
from proto.faults import Fault
from proto.labels import Label
from proto.messages.broker import SessionLabel, SessionState
from proto.messages.wire import Ok
from proto.role.call import call
from proto.role.log import logger


class Taint:
    """Raises labels. Nothing here, and nothing anywhere else, lowers one."""

    def __init__(self, sessions: Sessions, approvals: Approvals, audit: Audit, egress: Path, notice_s: float) -> None:
        self._sessions = sessions
        self._approvals = approvals
        self._audit = audit
        self._egress = egress
        self._notice_s = notice_s

    async def join(self, session: str, label: Label, cause: str) -> Label:
        """Join a label into a session's, and give the one that it has now; `cause` is for the audit log."""
        after, rose = self._sessions.raise_label(session, label)
        if rose:
            self._audit.session("label", session, after, cause=cause)
            self._approvals.void(session, "label-rose")
            with anyio.CancelScope(shield=True):
                await self._tell_egress(session, after)
        return after

    async def _tell_egress(self, session: str, label: Label) -> None:
        """Best effort, bounded: an egressd that is not there has nothing under way."""
        notice = SessionLabel(session=session, class_=label.class_, untrusted=label.untrusted)
        try:
            with anyio.fail_after(self._notice_s):
                await call(self._egress, notice, Ok, SessionState, timeout_s=self._notice_s)
        except (Fault, TimeoutError) as error:
            logger().warning("egressd-not-told", session=session, reason=str(error) or "no answer in time")
