"""Answers in OpenAI's words: the whole completion, the chunks of a stream, errors. Pure; the bytes of JSON come out."""

import time
import uuid
from typing import Any, Final

import msgspec

from boxmaker_model import MODEL_ID
from boxmaker_model.plan import Call

_encoder: Final = msgspec.json.Encoder()
DONE: Final = b"data: [DONE]\n\n"


class Outcome(msgspec.Struct, frozen=True):
    """What was answered: a text or a call, why it ended, and the tokens of both sides."""

    text: str | None
    call: Call | None
    finish: str
    prompt_tokens: int
    completion_tokens: int


class Reply:
    """One completion: its id and time, the same in every piece of it."""

    def __init__(self) -> None:
        self._id = f"chatcmpl-{uuid.uuid4().hex}"
        self._call_id = f"call_{uuid.uuid4().hex[:24]}"
        self._created = int(time.time())

    def whole(self, outcome: Outcome) -> bytes:
        """The answer to a request without `stream`."""
        message: dict[str, Any] = {"role": "assistant", "content": outcome.text, "refusal": None}
        if outcome.call:
            message["tool_calls"] = [self._called(outcome.call)]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": outcome.finish}
        return self._object("chat.completion", [choice], usage=_usage(outcome))

    def start(self) -> bytes:
        """The first event of a stream."""
        return self._chunk({"role": "assistant", "content": ""})

    def piece(self, text: str) -> bytes:
        """An event with a piece of the text."""
        return self._chunk({"content": text})

    def end(self, outcome: Outcome, *, with_usage: bool) -> bytes:
        """The last events: the call, if there is one, the reason, the usage, and the end of the stream."""
        events = b""
        if outcome.call:
            called = self._called(outcome.call)
            named = {**called, "function": {"name": outcome.call.tool, "arguments": ""}}
            events += self._chunk({"tool_calls": [{"index": 0, **named}]})
            given = {"index": 0, "function": {"arguments": outcome.call.arguments}}
            events += self._chunk({"tool_calls": [given]})
        events += self._chunk({}, outcome.finish)
        if with_usage:
            events += _event(self._object("chat.completion.chunk", [], usage=_usage(outcome)))
        return events + DONE

    def _called(self, call: Call) -> dict[str, Any]:
        function = {"name": call.tool, "arguments": call.arguments}
        return {"id": self._call_id, "type": "function", "function": function}

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _event(self._object("chat.completion.chunk", [choice]))

    def _object(self, kind: str, choices: list[dict[str, Any]], **more: Any) -> bytes:
        head = {"id": self._id, "object": kind, "created": self._created, "model": MODEL_ID}
        return _encoder.encode({**head, "choices": choices, **more})


def error(message: str, kind: str, code: str | None) -> dict[str, Any]:
    """An error of OpenAI's shape; `kind` is `invalid_request_error` for the client's fault, else `server_error`."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def error_event(message: str) -> bytes:
    """An error in a stream that has begun, and its end."""
    return _event(_encoder.encode(error(message, "server_error", None))) + DONE


def models() -> bytes:
    """The list of the one model."""
    model = {"id": MODEL_ID, "object": "model", "created": 0, "owned_by": "boxmaker"}
    return _encoder.encode({"object": "list", "data": [model]})


def encode(value: dict[str, Any]) -> bytes:
    """A map as JSON."""
    return _encoder.encode(value)


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _usage(outcome: Outcome) -> dict[str, int]:
    total = outcome.prompt_tokens + outcome.completion_tokens
    return {
        "prompt_tokens": outcome.prompt_tokens,
        "completion_tokens": outcome.completion_tokens,
        "total_tokens": total,
    }
