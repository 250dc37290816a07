"""memoryd, asked over `run/loop-memory/memory.sock`: the memory block, and word of new records (M5a section 9)."""

from pathlib import Path
from typing import Final

from proto.faults import Fault
from proto.messages.memory import MemoryBlock, MemoryBlockReply, SessionUpdated
from proto.messages.wire import Ok
from proto.role.call import call
from proto.role.log import logger

_UPDATED_SECONDS: Final = 60.0


class MemoryPort:
    """The way to memoryd."""

    def __init__(self, path: Path, connect_within_s: float = 2.0) -> None:
        self._path = path
        self._connect_within_s = connect_within_s

    async def block(self) -> str:
        """The memory block of a new session.

        Raises:
            Fault: `memory-unavailable`: memoryd does not answer, or refuses; a session without memory does not start.

        """
        try:
            reply: MemoryBlockReply = await call(
                self._path,
                MemoryBlock(),
                MemoryBlockReply,
                connect_within_s=self._connect_within_s,
                unreachable="memory-unavailable",
            )
        except Fault as fault:
            raise Fault("memory-unavailable", f"no session can start without its memory: {fault.message}") from None
        return reply.text

    async def updated(self, session: str) -> None:
        """Say that a log has new records. Best effort: memoryd catches up at its next start."""
        word, connect_within_s = SessionUpdated(session=session), self._connect_within_s
        try:
            await call(self._path, word, Ok, timeout_s=_UPDATED_SECONDS, connect_within_s=connect_within_s)
        except Fault as fault:
            logger().warning("memory-not-told", session=session, code=fault.code)
