"""What loopd is asked by the owner: to chat, and about its sessions."""

from typing import Any, Literal

import msgspec

from proto.ids import ApprovalId, CallId, SessionId
from proto.labels import DataClass
from proto.messages.wire import Reply, Request


class Chat(Request, frozen=True, tag="chat"):
    """Says something in a session (a new one when `session` is null); answered by a stream of `chat_…` events.

    The stream ends with `chat_done` or `chat_failed`. A client that goes away does not stop the turn.
    """

    session: SessionId | None
    text: str


class ChatOpened(Reply, frozen=True, tag="chat_opened"):
    """The session, its label, its model, and whether it is new: always the first event."""

    session: SessionId
    new: bool
    destination: str
    model: str
    class_: DataClass = msgspec.field(name="class")
    untrusted: bool


class ChatDelta(Reply, frozen=True, tag="chat_delta"):
    """A piece of the assistant's words as the model streams them."""

    text: str


class ChatTool(Reply, frozen=True, tag="chat_tool"):
    """A tool call begins, or has ended with `ok` and a clipped, escaped result."""

    call: CallId
    tool: str
    arguments: str
    state: Literal["running", "ok", "refused"]
    text: str


class ChatApproval(Reply, frozen=True, tag="chat_approval"):
    """A tool call waits for the owner; `text` is escaped."""

    approval: ApprovalId
    call: CallId
    text: str
    expires: str


class ChatLabel(Reply, frozen=True, tag="chat_label"):
    """The session's label has risen."""

    class_: DataClass = msgspec.field(name="class")
    untrusted: bool


class ChatDone(Reply, frozen=True, tag="chat_done"):
    """The turn is finished and logged; `text` is the whole answer."""

    session: SessionId
    text: str
    input_tokens: int | None
    output_tokens: int | None


class ChatFailed(Reply, frozen=True, tag="chat_failed"):
    """The turn ended without an answer; the session goes on, unless the code says otherwise."""

    session: SessionId | None
    code: str
    message: str
    runbook: str | None


class ChatStop(Request, frozen=True, tag="chat_stop"):
    """Ends the turn of a session at the next safe point; `ok` also when none is under way."""

    session: SessionId


class Sessions(Request, frozen=True, tag="sessions"):
    """Asks for the sessions, newest first, at most `last` of them (default 20)."""

    last: int | None = None


class SessionSummary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A session: when it began and last spoke, its number of records, and its first words, clipped and escaped."""

    session: SessionId
    began: str
    updated: str
    records: int
    first: str
    state: Literal["open", "busy", "full", "damaged", "lost"]
    class_: DataClass | None = msgspec.field(name="class")
    untrusted: bool | None


class SessionsReply(Reply, frozen=True, tag="sessions_reply"):
    """The sessions, newest first, and how many there are in all."""

    sessions: list[SessionSummary]
    total: int


class SessionLog(Request, frozen=True, tag="session_log"):
    """Asks for records of a session's log from number `first` on, as many as fit a frame."""

    session: SessionId
    first: int


class SessionLogReply(Reply, frozen=True, tag="session_log_reply"):
    """Records as they are stored; `next` is the number to ask from next, or null at the end."""

    records: list[dict[str, Any]]
    next: int | None


class Channels(Request, frozen=True, tag="channels"):
    """Asks how the channels beside the owner's own are that the settings switch on."""


class ChannelState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A channel, and why it is not connected; `why` is null while it is."""

    channel: Literal["mattermost"]
    why: str | None
    runbook: str | None


class ChannelsReply(Reply, frozen=True, tag="channels_reply"):
    """The channels that are switched on."""

    channels: list[ChannelState]
