"""The prompt of a session, as bytes: a pure function of its baseline and its records.

Law (strict extension, tested): the bytes of `prefix` after some records begin with the bytes after fewer of them, in
this process and in any later one. So a provider, or a local model, finds its cache of the earlier prompt again.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from loopd.session.baseline import Baseline
from loopd.session.records import Assistant, Record, ToolResult, User
from proto.canon import compact

NO_ANSWER: Final = "(no answer was given)"
"""Stands where a turn ended without an answer, so that the roles alternate as every chat template expects."""


def body(baseline: Baseline, records: Sequence[Record], output_tokens: int, output_field: str, *, final: bool) -> bytes:
    """The body of the request for the next answer; `final` asks for one without tools."""
    head = {
        "model": baseline.model,
        "stream": True,
        "stream_options": {"include_usage": True},
        output_field: output_tokens,
        "tools": baseline.tools,
    }
    # The messages come last, and what changes from one request to the next comes after them.
    tail = b'],"tool_choice":"none"}' if final else b"]}"
    return compact(head).encode()[:-1] + b',"messages":' + prefix(baseline, records) + tail


def prefix(baseline: Baseline, records: Iterable[Record]) -> bytes:
    """The JSON array of the messages, without its closing bracket."""
    return b"[" + b",".join(compact(message).encode() for message in _messages(baseline, records))


def _messages(baseline: Baseline, records: Iterable[Record]) -> Iterator[dict[str, Any]]:
    yield {"role": "system", "content": baseline.system}
    answered = True
    for record in records:
        if isinstance(record, User) and not answered:
            yield {"role": "assistant", "content": NO_ANSWER}
        answered = isinstance(record, Assistant) and not record.tool_calls
        yield message(record, send_reasoning=baseline.send_reasoning)


def message(record: Record, *, send_reasoning: bool) -> dict[str, Any]:
    """The chat-completions message of a record."""
    match record:
        case User():
            said = record.text if record.author is None else f"{record.author} said: {record.text}"
            return {"role": "user", "content": said}
        case ToolResult():
            return {"role": "tool", "tool_call_id": record.call, "content": record.content}
        case Assistant():
            spoken: dict[str, Any] = {"role": "assistant", "content": record.content}
            if record.tool_calls:
                spoken["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": compact(call.arguments)},
                    }
                    for call in record.tool_calls
                ]
            if send_reasoning and record.reasoning_content is not None:
                spoken["reasoning_content"] = record.reasoning_content
            return spoken
