"""The log of a session, read from loopd in pieces, and as lines that a person can read."""

from collections.abc import Iterator
from typing import Any

from bxctl.places import Box
from bxctl.render import flat
from proto.canon import compact
from proto.messages.loop import SessionLog, SessionLogReply

_CALL_CHARS = 200
_RESULT_CHARS = 300


def records(box: Box, session: str) -> Iterator[dict[str, Any]]:
    """The records of a session from the first to the last.

    Raises:
        Fault: `session-unknown` and what else loopd answers.

    """
    first: int | None = 0
    while first is not None:
        reply: SessionLogReply = box.ask("owner-loop", SessionLog(session=session, first=first), SessionLogReply)
        yield from reply.records
        first = reply.next


def said(record: dict[str, Any]) -> Iterator[str]:
    """A record as lines: who said what, which tool was called, what came of it. The texts are not escaped yet."""
    match record.get("kind"):
        case "user":
            yield f"{record.get('author') or 'you'}: {record.get('text', '')}"
        case "assistant":
            if record.get("content"):
                yield f"box: {record['content']}"
            for call in record.get("tool_calls") or ():
                yield f"  · {call.get('name')} {flat(compact(call.get('arguments')), _CALL_CHARS)}"
        case "tool_result":
            flag = " · untrusted" if record.get("untrusted") else ""
            yield f"    {record.get('class')}{flag}: {flat(str(record.get('content', '')), _RESULT_CHARS)}"
        case other:
            yield f"  ({other})"
