"""What egressd hands over: decision contexts, in pieces. Nothing can be read here."""

from typing import assert_never

import anyio.to_thread
import msgspec

from memoryd.acts import keep
from memoryd.desk.keeping import Keeping
from memoryd.holdings import Holdings
from proto.faults import Fault
from proto.messages.memory import KeepBegin, KeepBegun, KeepEnd, KeepPiece, KeepWhole
from proto.messages.wire import Ok
from proto.role.serve import Connection

_Asked = KeepWhole | KeepBegin | KeepPiece | KeepEnd


class ContextDesk:
    """Answers on run/egress-memory/context.sock."""

    def __init__(self, holdings: Holdings, keeping: Keeping) -> None:
        self._holdings = holdings
        self._thread = keeping.inbox_thread

    async def answer(self, request: _Asked, connection: Connection) -> msgspec.Struct:
        """The reply to a piece of what is handed over; raises Fault `kept-refused`, `busy`, `memory-unavailable`."""
        try:
            return await anyio.to_thread.run_sync(self._reply, request, limiter=self._thread)
        except OSError as error:
            raise Fault("memory-unavailable", f"the disk refused: {error}") from None

    def _reply(self, request: _Asked) -> msgspec.Struct:
        match request:
            case KeepWhole():
                _check(request.begun)
                keep.whole(self._holdings, request)
            case KeepBegin():
                _check(request)
                return KeepBegun(handle=keep.begin(self._holdings, request))
            case KeepPiece():
                self._holdings.inbox.piece(request.handle, request.part, request.offset, request.data)
            case KeepEnd():
                keep.end(self._holdings, request)
            case _:
                assert_never(request)
        return Ok()


def _check(begun: KeepBegin) -> None:
    if begun.kept != "contexts" or begun.observed_by != "egress":
        raise Fault("kept-refused", "this socket takes what the egress observed: decision contexts")
