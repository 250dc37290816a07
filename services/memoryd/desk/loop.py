"""What loopd asks: the memory block of a new session, and to read a log that has new records."""

import msgspec

from memoryd.acts import show
from memoryd.desk import reads
from memoryd.desk.indexing import Indexing
from memoryd.desk.turns import Turns
from memoryd.holdings import Holdings
from proto.messages.memory import MemoryBlock, MemoryBlockReply, SessionUpdated
from proto.messages.wire import Ok
from proto.role import trace
from proto.role.serve import Connection


class LoopDesk:
    """Answers on run/loop-memory/memory.sock."""

    def __init__(self, holdings: Holdings, turns: Turns, indexing: Indexing) -> None:
        self._holdings = holdings
        self._turns = turns
        self._indexing = indexing

    async def answer(self, request: MemoryBlock | SessionUpdated, connection: Connection) -> msgspec.Struct:
        """The reply to a request; raises Fault `memory-unavailable` for a block that cannot be served."""
        match request:
            case MemoryBlock():
                with trace.span(reads.NAME, "server") as span:
                    text = await self._turns.take(show.block, self._holdings)
                    reads.block_served(span, text)
                self._indexing.wake()
                return MemoryBlockReply(text=text)
            case SessionUpdated(session=session):
                await self._indexing.read_log(session)
                return Ok()
