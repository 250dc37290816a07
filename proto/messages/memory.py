"""What memoryd is asked: by loopd (`memory_block`, `session_updated`), by brokerd (`memory_call`), by the owner."""

from typing import Annotated, Any, Literal

import msgspec

from proto import forms
from proto.ids import CallId, DestinationName, DomainId, EditId, SessionId
from proto.labels import DataClass
from proto.messages.broker import ToolRequest
from proto.messages.wire import Reply, Request


class MemoryBlock(Request, frozen=True, tag="memory_block"):
    """Asks for the memory block of a new session's prompt (M5a section 4)."""


class MemoryBlockReply(Reply, frozen=True, tag="memory_block_reply"):
    """The block, ready to stand after system.md and a blank line."""

    text: str


class SessionUpdated(Request, frozen=True, tag="session_updated"):
    """Says that a session's log has new records; answered `ok`, also when the log is not there."""

    session: SessionId


class MemoryCall(Request, frozen=True, tag="memory_call"):
    """A decided call, with the session's label when brokerd decided it; answered `tool_response`."""

    request: ToolRequest
    taint: DataClass
    untrusted: bool


class Reindex(Request, frozen=True, tag="reindex"):
    """Asks for the index to be built anew beside the old one."""


class Reindexed(Reply, frozen=True, tag="reindexed"):
    """What the new index holds."""

    logs: int
    records: int
    notes: int


class MemoryAdmin(Request, frozen=True, tag="memory_admin"):
    """The owner's command. `arg`: log: empty or digits (0 shows none); undo, accept, reject: an id; pending: empty."""

    command: Literal["log", "undo", "pending", "accept", "reject"]
    arg: str


class MemoryAdminReply(Reply, frozen=True, tag="memory_admin_reply"):
    """The answer as text for a terminal, escaped."""

    text: str


class Edits(Request, frozen=True, tag="edits"):
    """Asks for applied edits: the last `last` of them (default 10), newest last, or the one whose id is `id`."""

    last: int | None = None
    id: EditId | None = None


class EditsReply(Reply, frozen=True, tag="edits_reply"):
    """Journal lines as they are stored (contract, "The files of M5a"), newest last.

    Where they do not all fit the frame, long texts of long lines are cut to `…` and their number of characters. Fewer
    lines than were asked for, though the journal has more, mean that the frame was full without the older ones.
    """

    edits: list[dict[str, Any]]


class PendingEdits(Request, frozen=True, tag="pending_edits"):
    """Asks for the writes that wait for the owner's review."""


class PendingEditsReply(Reply, frozen=True, tag="pending_edits_reply"):
    """The waiting writes, oldest first: `id time session call action file class untrusted arguments`.

    Where they do not all fit the frame, long texts are cut as in `edits_reply`; where that is not enough, the last map
    is `{"more": n}`: so many more wait.
    """

    edits: list[dict[str, Any]]


class MemoryShow(Request, frozen=True, tag="memory_show"):
    """Asks for what a new session would be told, and what was left out of it."""


class MemoryFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One identity file: its size and limit in code points, its text, and why it cannot be served, if so."""

    file: str
    chars: int
    limit: int
    text: str
    problem: str | None


class LeftOut(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An entry that the check keeps out of the block: its file, its number from 1, the rule, and the entry."""

    file: str
    number: int
    rule: int
    reason: str
    entry: str


class IndexState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the index holds, and the logs that it could not read to their end."""

    logs: int
    records: int
    notes: int
    damaged_logs: list[str]


class UnreadNote(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A note that has no label, so recall does not show it: its number in notes.md, from 1, why, and its beginning."""

    number: int
    reason: str
    text: str


class MemoryShowReply(Reply, frozen=True, tag="memory_show_reply"):
    """The three files, the entries left out, the index, whether review is on, and the notes that recall leaves out."""

    files: list[MemoryFile]
    left_out: list[LeftOut]
    index: IndexState
    review: bool
    unread_notes: list[UnreadNote] = msgspec.field(default_factory=list)


KeptKind = Literal["contexts", "transcripts", "sources"]
"""The names of the holding of kept material: `record/<domain>/.<kind>/<session>/`."""
Sha256 = Annotated[str, msgspec.Meta(pattern=forms.SHA256.pattern)]


class KeptPart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One body of an item: `request`, `response`, `transcript`, …; its size and digest, and whether it is whole.

    `headers` are those of an allowlist, as they went over the wire.
    """

    name: Annotated[str, msgspec.Meta(pattern=forms.NAME.pattern)]
    size_bytes: Annotated[int, msgspec.Meta(ge=0)]
    sha256: Sha256
    whole: bool
    headers: list[tuple[str, str]] = []


class ContextAbout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said of a model call: where it went, how, and what came of it."""

    turn: int
    destination: DestinationName
    auth: Literal["subscription", "key", "gateway", "none"]
    route: str
    method: str
    path: str
    status: int
    model: str


class KeepBegin(Request, frozen=True, tag="keep_begin"):
    """Begins an item of kept material; answered `keep_begun`.

    `call` is the item's id in its session. `time` is RFC 3339; `retention_days` counts from it. The label comes from
    brokerd's answer. An item that is not ended within a minute of its last piece is dropped.
    """

    kept: KeptKind
    session: SessionId
    call: CallId
    domain: DomainId
    class_: DataClass = msgspec.field(name="class")
    untrusted: bool
    observed_by: Literal["egress", "harness"]
    time: str
    retention_days: int
    context: ContextAbout | None


class KeepBegun(Reply, frozen=True, tag="keep_begun"):
    """The number under which pieces are sent."""

    handle: str


class KeepPiece(Request, frozen=True, tag="keep_piece"):
    """The next bytes of a part; `offset` is where they go, the end of what is there. Answered `ok`."""

    handle: str
    part: Annotated[str, msgspec.Meta(pattern=forms.NAME.pattern)]
    offset: Annotated[int, msgspec.Meta(ge=0)]
    data: bytes


class KeepEnd(Request, frozen=True, tag="keep_end"):
    """The item is whole: every part with its size and digest, which are checked; `ok` when it is on disk.

    What was not known when it began may be said again: `context` takes the earlier one's place.
    """

    handle: str
    parts: list[KeptPart]
    context: ContextAbout | None


class KeepWhole(Request, frozen=True, tag="keep_whole"):
    """An item that one frame has room for, in one step: `ok` when it is on disk.

    It means the same as `begun`, a piece for each part, and `keep_end`; `bodies` are those of `parts`, in their order.
    """

    begun: KeepBegin
    parts: list[KeptPart]
    bodies: list[bytes]


class KeptItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An item: what was said of it, and when it goes. `entries` are the ids served to the session until then.

    A record of a session is `<session>/<epoch>/<record>`, a note `notes/<session>/<time>/<position>`. Where a reply has
    no room for all of them, its first is `…n`: so many older ones are left out. `erased` is why its bodies are gone
    (`retention` or `owner`), when they are; the rest stays.
    """

    kept: KeptKind
    session: SessionId
    call: CallId
    domain: DomainId
    class_: DataClass = msgspec.field(name="class")
    untrusted: bool
    observed_by: Literal["egress", "harness"]
    time: str
    drop_after: str
    entries: list[str]
    parts: list[KeptPart]
    context: ContextAbout | None
    erased: str | None


class KeptList(Request, frozen=True, tag="kept_list"):
    """The owner asks for kept items, newest first, of one session or of all.

    `before` is where to go on from: a time, or `<time> <session> <call>` of the last item that was given.
    """

    kept: KeptKind
    session: SessionId | None = None
    last: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 20
    before: str | None = None


class KeptListReply(Reply, frozen=True, tag="kept_list_reply"):
    """The items, newest first, as many as the frame has room for; `more` says that there are older ones."""

    items: list[KeptItem]
    more: bool


class KeptShow(Request, frozen=True, tag="kept_show"):
    """The owner asks for the bytes of a part from an offset on; answered with at most half a frame of them."""

    kept: KeptKind
    session: SessionId
    call: CallId
    part: Annotated[str, msgspec.Meta(pattern=forms.NAME.pattern)]
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0


class KeptShowReply(Reply, frozen=True, tag="kept_show_reply"):
    """The item, and the bytes; `next_offset` is None at the end."""

    item: KeptItem
    data: bytes
    next_offset: int | None


class KeptErase(Request, frozen=True, tag="kept_erase"):
    """The owner erases the bodies of one item, or of a whole session when `call` is None."""

    kept: KeptKind
    session: SessionId
    call: CallId | None


class KeptErased(Reply, frozen=True, tag="kept_erased"):
    """How many items lost their bodies."""

    items: int
