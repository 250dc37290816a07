"""Keeping the index up with the logs and with notes.md, beside the answering.

At start every log is caught up on; a recall waits for that, but not for ever. Notes are brought in soon after they were
written, and before the next recall. Logs are written by others: whatever one of them does to the reader, it costs its
own records and a line that names it, never the other logs and never the daemon.
"""

import contextlib
from typing import Final

import anyio
import anyio.from_thread
import anyio.to_thread

from memoryd.acts import reindex
from memoryd.holdings import Holdings
from memoryd.index import Counts
from proto.faults import Fault
from proto.role.log import logger

_PATIENCE_S: Final = 20.0


class Indexing:
    """What the index lacks, and the task that brings it in."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._caught_up = anyio.Event()
        self._wake = anyio.Event()
        self._line = anyio.Lock()
        self._thread = anyio.CapacityLimiter(1)
        self._version = -1

    async def run(self) -> None:
        """Catch up, then bring in notes whenever there are new ones, until cancelled."""
        await self._catch_up()
        self._caught_up.set()
        while True:
            self._wake = anyio.Event()
            await self._bring_in_notes()
            await self._wake.wait()

    def wake(self) -> None:
        """Notes may have changed."""
        self._wake.set()

    async def caught_up(self) -> None:
        """Wait until the index has what was there when this was called, or for a while."""
        with anyio.move_on_after(_PATIENCE_S):
            await self._caught_up.wait()
            await self._bring_in_notes()

    @property
    def is_ready(self) -> bool:
        """Whether the start's catching up is over."""
        return self._caught_up.is_set()

    async def read_log(self, session: str) -> None:
        """Read what is new in a session's log. A damaged index is told of by recall; reindex reads this log too."""
        try:
            counts = await anyio.to_thread.run_sync(
                self._holdings.index.session_updated, session, self._holdings.sessions, limiter=self._thread
            )
            _tell_damaged(counts)
        except (Fault, OSError) as error:
            logger().error("log-not-indexed", session=session, error=str(error))
        except Exception:  # noqa: BLE001  (whatever a log holds, the next one is read)
            logger().exception("log-not-indexed", session=session)

    async def _catch_up(self) -> None:
        index, sessions = self._holdings.index, self._holdings.sessions
        try:
            counts = await anyio.to_thread.run_sync(
                index.catch_up, sessions, anyio.from_thread.check_cancelled, limiter=self._thread
            )
            logger().info("caught-up", logs=counts.logs, records=counts.records)
            _tell_damaged(counts)
        except (Fault, OSError) as error:
            logger().error("index-unusable", error=str(error))
        except Exception:  # noqa: BLE001  (one log must not keep the others from being read)
            logger().exception("catch-up-failed")
            with contextlib.suppress(Fault):
                for session in sorted(await anyio.to_thread.run_sync(reindex.sessions, self._holdings)):
                    await self.read_log(session)

    async def _bring_in_notes(self) -> None:
        async with self._line:
            version = self._holdings.shelf.notebook.version
            if version == self._version:
                return
            try:
                await anyio.to_thread.run_sync(reindex.bring_in_notes, self._holdings, limiter=self._thread)
                self._version = version
            except (Fault, OSError) as error:
                logger().error("notes-not-indexed", error=str(error))
            except Exception:  # noqa: BLE001  (whatever a hand put into notes.md, the daemon answers)
                logger().exception("notes-not-indexed")


def _tell_damaged(counts: Counts) -> None:
    for session in counts.damaged:
        logger().warning("log-damaged", session=session)
