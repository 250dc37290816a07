"""Responses, as OpenAI and the servers that speak its API send them."""

from typing import Any

from egressd.meter.usage import Usage
from tests.egressd.streams.shape import JSON, Stream, compact, named, pretty

MODEL = "gpt-5.4-2026-02-12"
SAID = {
    "input_tokens": 2100,
    "input_tokens_details": {"cached_tokens": 1920, "cache_write_tokens": 128},
    "output_tokens": 450,
    "output_tokens_details": {"reasoning_tokens": 320},
    "total_tokens": 2550,
}
READ = Usage(
    input_tokens=2100, output_tokens=450, cache_read_tokens=1920, cache_write_5m_tokens=128, reasoning_tokens=320
)
BIG = "x = {\"Grüße\": '世界'}\n" * 45_000


def response(
    status: str, *output: dict[str, Any], usage: Any = None, model: str = MODEL, **more: Any
) -> dict[str, Any]:
    """A response."""
    return {
        "id": "resp_5",
        "object": "response",
        "status": status,
        "error": None,
        "model": model,
        "output": list(output),
        "usage": usage,
    } | more


def event(kind: str, **more: Any) -> dict[str, Any]:
    """An event of a stream."""
    return {"type": f"response.{kind}", "sequence_number": 1} | more


def message(text: str) -> dict[str, Any]:
    """An item of the output."""
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


CREATED = event("created", response=response("in_progress"))
GOES_ON = event("in_progress", response=response("in_progress"))
DELTA = event("output_text.delta", item_id="msg_1", output_index=0, delta="Grüße 🌍")
COMPLETED = event("completed", response=response("completed", message("Grüße"), usage=SAID))
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAA=="}
CALL = {"type": "function_call", "call_id": "call_1", "name": "t0", "arguments": '{"usage":{"input_tokens":1}}'}


def _of(usage: dict[str, Any] | None, kind: str = "completed", **more: Any) -> bytes:
    return named(CREATED, event(kind, response=response(kind, usage=usage, **more)))


def _stream(name: str, body: bytes, usage: Usage = READ, model: str | None = MODEL, **more: Any) -> Stream:
    return Stream(f"responses: {name}", "openai-responses", body, usage, model, **more)


STREAMS = [
    _stream("streamed", named(CREATED, GOES_ON, DELTA, COMPLETED)),
    _stream(
        "reasoning that is encrypted",
        named(CREATED, event("output_item.done", item=REASONING), event("completed", response=response("completed", REASONING, usage=SAID))),
    ),
    _stream(
        "a function call whose arguments talk of usage",
        named(CREATED, event("function_call_arguments.delta", delta=CALL["arguments"]), event("output_item.done", item=CALL), COMPLETED),
    ),
    _stream("incomplete", _of(SAID, "incomplete", incomplete_details={"reason": "max_output_tokens"})),
    _stream("failed, with what was used", _of(SAID, "failed", error={"code": "server_error", "message": "x"})),
    _stream("failed, with no usage", _of(None, "failed", error={"code": "rate_limit_exceeded"}), Usage()),
    _stream(
        "an error in the middle",
        named(CREATED, DELTA, {"type": "error", "code": "server_error", "message": "x", "sequence_number": 9}),
        Usage(),
    ),
    _stream("cut before the usage", named(CREATED, GOES_ON, DELTA), Usage()),
    _stream("cut in the usage", named(CREATED, COMPLETED)[:-50], Usage()),
    _stream("crlf and comments", b": ping\r\n\r\n" + named(CREATED, DELTA, COMPLETED, end="\r\n")),
    _stream("cr", named(CREATED, COMPLETED, end="\r")),
    _stream("no details", _of({"input_tokens": 7, "output_tokens": 3}), Usage(input_tokens=7, output_tokens=3)),
    _stream(
        "caches for half an hour and for half a day",
        _of(
            SAID
            | {
                "input_tokens_details": {
                    "cached_tokens": 0,
                    "cache_write_tokens": 1500,
                    "cache_write_tokens_details": {"ttl_30m_tokens": 500, "ttl_12h_tokens": 1000},
                }
            }
        ),
        Usage(
            input_tokens=2100,
            output_tokens=450,
            cache_read_tokens=0,
            cache_write_5m_tokens=500,
            cache_write_1h_tokens=1000,
            reasoning_tokens=320,
        ),
    ),
    _stream("the model that answered is another", _of(SAID, model="gpt-5.4-pro"), READ, "gpt-5.4-pro"),
    _stream("a megabyte in the last event", named(CREATED, event("completed", response=response("completed", message(BIG), usage=SAID)))),
    _stream("a megabyte in the middle", named(CREATED, event("output_text.done", text=BIG), COMPLETED)),
    _stream("whole", compact(response("completed", message("Hi"), usage=SAID)).encode(), content_type=JSON),
    _stream("whole, pretty", pretty(response("completed", REASONING, CALL, usage=SAID)).encode(), content_type=JSON),
    _stream("in the background", compact(response("queued")).encode(), Usage(), content_type=JSON),
    _stream(
        "an error",
        pretty({"error": {"message": "no such model", "type": "invalid_request_error", "code": "model_not_found"}}).encode(),
        Usage(),
        None,
        content_type=JSON,
        status="404 Not Found",
    ),
]  # fmt: skip
