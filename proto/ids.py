"""Ids that cross the wire: their forms, and how new ones are made. Ids are stored and shown whole."""

import re
import secrets
from typing import Annotated, Final

import msgspec

# `\Z` and not `$`: `$` would let a final line feed through.
_SESSION: Final = r"^(mm-[a-z0-9]{26}|chat-[a-z0-9-]{1,48}|run-[a-z0-9-]{1,48})\Z"
_CALL: Final = r"^[\x20-\x7e]{1,128}\Z"
_EDIT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{4,12}\Z"
_APPROVAL: Final = r"^ap-[0-9a-f]{16}\Z"
_NAME: Final = r"^[a-z][a-z0-9-]{0,62}\Z"
_DOMAIN: Final = r"^dom-[a-z0-9-]{1,48}\Z"
_TRACEPARENT: Final = r"^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\Z"

SessionId = Annotated[str, msgspec.Meta(pattern=_SESSION)]
CallId = Annotated[str, msgspec.Meta(pattern=_CALL)]
EditId = Annotated[str, msgspec.Meta(pattern=_EDIT)]
ApprovalId = Annotated[str, msgspec.Meta(pattern=_APPROVAL)]
DestinationName = Annotated[str, msgspec.Meta(pattern=_NAME)]
DomainId = Annotated[str, msgspec.Meta(pattern=_DOMAIN)]
TraceParent = Annotated[str, msgspec.Meta(pattern=_TRACEPARENT)]


def is_session_id(text: str) -> bool:
    """Whether a text has the form of a session id (a folder's name may not)."""
    return re.match(_SESSION, text) is not None


def is_edit_id(text: str) -> bool:
    """Whether a text has the form of an edit id, `YYYY-MM-DD-NNNN`."""
    return re.match(_EDIT, text) is not None


def is_traceparent(text: str) -> bool:
    """Whether a text has the form of a W3C traceparent."""
    return re.match(_TRACEPARENT, text) is not None


def new_chat_id(stamp: str) -> str:
    """A new id of a terminal chat: `chat-<stamp>-<6 hex>`; `stamp` is lower case, digits and hyphens."""
    return f"chat-{stamp}-{secrets.token_hex(3)}"


def new_approval_id() -> str:
    """A new approval id, which cannot be guessed."""
    return f"ap-{secrets.token_hex(8)}"
