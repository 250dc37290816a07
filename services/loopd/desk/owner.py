"""The owner's socket, `run/owner-loop/admin.sock`: chat, stop, sessions, logs, channels, approvals, backup."""

from collections.abc import Callable
from pathlib import Path
from typing import assert_never

import anyio.abc
import anyio.to_thread
import msgspec

from loopd.conversations import Conversations
from loopd.ports.broker import BrokerPort
from loopd.session import summary
from loopd.session.store import Store
from proto.labels import Label
from proto.messages.broker import ApprovalAnswer
from proto.messages.loop import (
    Channels,
    ChannelsReply,
    ChannelState,
    Chat,
    ChatDone,
    ChatFailed,
    ChatStop,
    SessionLog,
    SessionLogReply,
    Sessions,
    SessionsReply,
    SessionSummary,
)
from proto.messages.wire import Backup, Ok
from proto.role.backup import send
from proto.role.serve import Connection

Request = Chat | ChatStop | Sessions | SessionLog | Channels | ApprovalAnswer | Backup
_SHOWN: int = 20
_MOST_SHOWN: int = 1000


class OwnerDesk:
    """Answers the owner. Turns run in `tasks`, and outlive the connection that began them."""

    def __init__(
        self,
        tasks: anyio.abc.TaskGroup,
        conversations: Conversations,
        store: Store,
        broker: BrokerPort,
        home: Path,
        channels: Callable[[], list[ChannelState]],
    ) -> None:
        self._tasks = tasks
        self._conversations = conversations
        self._store = store
        self._broker = broker
        self._home = home
        self._channels = channels

    async def answer(self, request: Request, connection: Connection) -> msgspec.Struct:
        """The last frame of the answer to a request."""
        match request:
            case Chat():
                return await self._chat(request, connection)
            case ChatStop():
                self._conversations.stop(request.session)
                return Ok()
            case Sessions():
                return await self._sessions(request)
            case SessionLog():
                found, next_number = await anyio.to_thread.run_sync(
                    summary.records, self._store, request.session, max(0, request.first)
                )
                return SessionLogReply(records=found, next=next_number)
            case Channels():
                return ChannelsReply(channels=self._channels())
            case ApprovalAnswer():
                await self._broker.answer(request)
                return Ok()
            case Backup():
                return await send(connection, self._home, "loopd")
            case _:
                assert_never(request)

    async def _chat(self, request: Chat, connection: Connection) -> msgspec.Struct:
        with self._conversations.chat(self._tasks, request.session, request.text) as events:
            async for event in events:
                if isinstance(event, ChatDone | ChatFailed):
                    return event
                await connection.send(event)
        raise anyio.BrokenResourceError  # the daemon ends in the middle of the turn, and goes on with it at its start

    async def _sessions(self, request: Sessions) -> SessionsReply:
        last = _SHOWN if request.last is None else min(max(0, request.last), _MOST_SHOWN)
        ids = await anyio.to_thread.run_sync(self._store.ids)
        labels = await self._broker.labels(ids[:last])
        shown = [await self._summary(session, labels.get(session)) for session in ids[:last]]
        return SessionsReply(sessions=shown, total=len(ids))

    async def _summary(self, session: str, label: Label | None) -> SessionSummary:
        line = await anyio.to_thread.run_sync(summary.line, self._store, session)
        return SessionSummary(
            session=session,
            began=line.began,
            updated=line.updated,
            records=line.records,
            first=line.first,
            state="damaged" if line.damaged else self._conversations.state(session),
            class_=None if label is None else label.class_,
            untrusted=None if label is None else label.untrusted,
        )
