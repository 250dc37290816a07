"""What the owner asks through bxctl: the edit journal, undo, review, what a session is told, verify, reindex,
backup, and what is kept of sessions.
"""

from pathlib import Path
from typing import assert_never

import anyio
import anyio.from_thread
import anyio.to_thread
import msgspec

from memoryd.acts import backup, kept, log, reindex, review, show, undo
from memoryd.desk.indexing import Indexing
from memoryd.desk.keeping import Keeping
from memoryd.desk.turns import Turns
from memoryd.holdings import Holdings
from memoryd.index import NoteEntry
from memoryd.refusal import Refusal
from proto.faults import Fault
from proto.messages.memory import (
    Edits,
    EditsReply,
    IndexState,
    KeptErase,
    KeptErased,
    KeptList,
    KeptShow,
    LeftOut,
    MemoryAdmin,
    MemoryAdminReply,
    MemoryFile,
    MemoryShow,
    MemoryShowReply,
    PendingEdits,
    PendingEditsReply,
    Reindex,
    Reindexed,
    UnreadNote,
)
from proto.messages.wire import Backup, JournalState, Verify, VerifyReply
from proto.role.backup import send
from proto.role.serve import Connection

OfKept = KeptList | KeptShow | KeptErase
OwnerRequest = Reindex | MemoryAdmin | Edits | PendingEdits | MemoryShow | Verify | Backup | OfKept


class OwnerDesk:
    """Answers on run/owner-memory/admin.sock."""

    def __init__(self, holdings: Holdings, turns: Turns, indexing: Indexing, keeping: Keeping, home: Path) -> None:
        self._holdings = holdings
        self._turns = turns
        self._indexing = indexing
        self._keeping = keeping
        self._home = home

    async def answer(self, request: OwnerRequest, connection: Connection) -> msgspec.Struct:
        """The reply to a request; raises Fault `memory-refused` with the reason of a refusal."""
        try:
            reply = await self._reply(request, connection)
        except Refusal as refusal:
            raise Fault("memory-refused", refusal.sentence) from None
        self._indexing.wake()
        return reply

    async def _reply(self, request: OwnerRequest, connection: Connection) -> msgspec.Struct:
        take, holdings = self._turns.take, self._holdings
        match request:
            case MemoryAdmin():
                return MemoryAdminReply(text=await take(_admin, holdings, request))
            case Edits(last=last, id=edit):
                return EditsReply(edits=await take(log.edits, holdings, last, edit))
            case PendingEdits():
                return PendingEditsReply(edits=await take(review.pending_edits, holdings))
            case MemoryShow():
                return await self._show()
            case Verify():
                return VerifyReply(journals=await take(_verify, holdings, self._home))
            case Backup():
                now = await take(backup.at_one_moment, holdings, self._home)
                return await send(connection, self._home, "memoryd", now, backup.JOURNALS)
            case Reindex():
                return await self._reindex()
            case KeptList() | KeptShow() | KeptErase():
                if isinstance(request, KeptList):
                    await self._keeping.listed()
                return await anyio.to_thread.run_sync(_of_kept, self._holdings, request)
        assert_never(request)

    async def _show(self) -> MemoryShowReply:
        files, left_out, unread_notes = await self._turns.take(_shown, self._holdings)
        return MemoryShowReply(
            files=files,
            left_out=left_out,
            index=await self._index_state(),
            review=self._holdings.review,
            unread_notes=unread_notes,
        )

    async def _index_state(self) -> IndexState:
        """What the index holds; what keeps it from telling stands in the list of what it could not read."""
        if not self._indexing.is_ready:
            return IndexState(logs=0, records=0, notes=0, damaged_logs=["(the index is catching up)"])
        await self._indexing.caught_up()
        try:
            held = await anyio.to_thread.run_sync(self._holdings.index.state)
        except (Fault, OSError) as error:
            return IndexState(logs=0, records=0, notes=0, damaged_logs=[str(error)])
        return IndexState(logs=held.logs, records=held.records, notes=held.notes, damaged_logs=list(held.damaged))

    async def _reindex(self) -> Reindexed:
        entries = await self._turns.take(_looked_at_notes, self._holdings)
        breathe = anyio.from_thread.check_cancelled
        held = await anyio.to_thread.run_sync(reindex.rebuild, self._holdings, entries, breathe)
        return Reindexed(logs=held.logs, records=held.records, notes=held.notes)


def _admin(holdings: Holdings, request: MemoryAdmin) -> str:
    match request.command:
        case "log":
            return log.log(holdings, request.arg)
        case "undo":
            return undo.undo(holdings, request.arg)
        case "pending":
            return review.pending(holdings, request.arg)
        case "accept":
            return review.accept(holdings, request.arg)
        case "reject":
            return review.reject(holdings, request.arg)


def _of_kept(holdings: Holdings, request: OfKept) -> msgspec.Struct:
    try:
        match request:
            case KeptList():
                return kept.newest(holdings, request)
            case KeptShow():
                return kept.show(holdings, request)
            case KeptErase():
                return KeptErased(items=kept.erase(holdings, request))
    except OSError as error:
        raise Fault("memory-unavailable", f"the disk refused: {error}") from None


def _shown(holdings: Holdings) -> tuple[list[MemoryFile], list[LeftOut], list[UnreadNote]]:
    holdings.writer.look()
    return show.files(holdings), show.named(show.left_out(holdings)), show.unread_notes(holdings)


def _looked_at_notes(holdings: Holdings) -> list[NoteEntry]:
    holdings.writer.look()
    return reindex.notes(holdings)


def _verify(holdings: Holdings, home: Path) -> list[JournalState]:
    return [
        JournalState(
            path=str(state.path.relative_to(home)), lines=state.lines, head=state.head, first_bad=state.first_bad
        )
        for state in holdings.shelf.journal.verify()
    ]
