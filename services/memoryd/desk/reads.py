"""What memoryd tells of each read that it answers: a span `memory.read`, with OpenTelemetry's GenAI words beside ours.

The query stands apart, with the session's class: egressd leaves it out above the ceiling of traces.
"""

from typing import Final

import msgspec

from memoryd.index import RecallAnswer
from memoryd.trail.served import entry_id
from proto.labels import DataClass
from proto.role.trace import Work

NAME: Final = "memory.read"
_BYTES_A_TOKEN: Final = 4
"""As most tokenizers do it for English; what a model counts is in its `model.call`."""


def recalled(span: Work, session: str, query: str, class_: DataClass, found: RecallAnswer) -> None:
    """A recall was answered; `class_` is the session's."""
    span.say(
        {
            **_of("recall", found.text),
            "boxmaker.session": session,
            "gen_ai.conversation.id": session,
            "boxmaker.memory.hits": len(found.hits),
            "boxmaker.memory.entries": [entry_id(msgspec.to_builtins(hit)) for hit in found.hits],
            "gen_ai.memory.record.count": len(found.hits),
        }
    )
    span.quote(class_, {"boxmaker.memory.query": query, "gen_ai.memory.query.text": query})


def block_served(span: Work, text: str) -> None:
    """The memory block of a new session was served; it is no session's yet."""
    span.say(_of("memory_block", text))


def _of(tool: str, text: str) -> dict[str, str | int]:
    return {
        "gen_ai.operation.name": "search_memory",
        "boxmaker.memory.tool": tool,
        "boxmaker.memory.tokens": -(-len(text.encode()) // _BYTES_A_TOKEN),
    }
