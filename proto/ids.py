"""Ids that cross the wire: their forms, and how new ones are made. Ids are stored and shown whole."""

import re
import secrets
from typing import Annotated

import msgspec

from proto import forms

SessionId = Annotated[str, msgspec.Meta(pattern=forms.SESSION.pattern)]
CallId = Annotated[str, msgspec.Meta(pattern=forms.CALL.pattern)]
EditId = Annotated[str, msgspec.Meta(pattern=forms.EDIT.pattern)]
ApprovalId = Annotated[str, msgspec.Meta(pattern=forms.APPROVAL.pattern)]
DestinationName = Annotated[str, msgspec.Meta(pattern=forms.NAME.pattern)]
DomainId = Annotated[str, msgspec.Meta(pattern=forms.DOMAIN.pattern)]
MattermostId = Annotated[str, msgspec.Meta(pattern=forms.MATTERMOST_ID.pattern)]
TraceParent = Annotated[str, msgspec.Meta(pattern=forms.TRACEPARENT.pattern)]
TraceId = Annotated[str, msgspec.Meta(pattern=forms.TRACE_ID.pattern)]
SpanId = Annotated[str, msgspec.Meta(pattern=forms.SPAN_ID.pattern)]


def is_session_id(text: str) -> bool:
    """Whether a text has the form of a session id (a folder's name may not)."""
    return re.match(forms.SESSION.pattern, text) is not None


def is_edit_id(text: str) -> bool:
    """Whether a text has the form of an edit id, `YYYY-MM-DD-NNNN`."""
    return re.match(forms.EDIT.pattern, text) is not None


def is_approval_id(text: str) -> bool:
    """Whether a text has the form of an approval id."""
    return re.match(forms.APPROVAL.pattern, text) is not None


def is_traceparent(text: str) -> bool:
    """Whether a text has the form of a W3C traceparent."""
    return re.match(forms.TRACEPARENT.pattern, text) is not None


def new_chat_id(stamp: str) -> str:
    """A new id of a terminal chat: `chat-<stamp>-<6 hex>`; `stamp` is lower case, digits and hyphens."""
    return f"chat-{stamp}-{secrets.token_hex(3)}"


def new_approval_id() -> str:
    """A new approval id, which cannot be guessed."""
    return f"ap-{secrets.token_hex(8)}"
