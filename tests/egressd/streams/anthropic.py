"""Messages, as Anthropic and the servers that speak its API send them."""

from typing import Any

from egressd.meter.usage import Usage
from tests.egressd.streams.shape import JSON, Stream, compact, named, pretty

MODEL = "claude-sonnet-5-20260915"
BIG = '<p class="a">Grüße, 世界</p>\\n' * 40_000


def message(usage: Any, *content: dict[str, Any], model: str = MODEL) -> dict[str, Any]:
    """A message."""
    return {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": list(content),
        "stop_reason": None,
        "usage": usage,
    }


def start(uncached: int = 25, output: int = 1, **more: Any) -> dict[str, Any]:
    """The first event."""
    return {"type": "message_start", "message": message({"input_tokens": uncached, "output_tokens": output} | more)}


def delta(output: int, stop: str = "end_turn", **more: Any) -> dict[str, Any]:
    """The event that tells the final counts."""
    return {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": output} | more}


def block(*deltas: dict[str, Any], **kind: Any) -> list[dict[str, Any]]:
    """A content block in its events."""
    return [
        {"type": "content_block_start", "index": 0, "content_block": kind},
        *({"type": "content_block_delta", "index": 0, "delta": piece} for piece in deltas),
        {"type": "content_block_stop", "index": 0},
    ]


def text(content: str) -> list[dict[str, Any]]:
    """A block of text."""
    return block({"type": "text_delta", "text": content}, type="text", text="")


STOP = {"type": "message_stop"}
PING = {"type": "ping"}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
PLAIN = Usage(input_tokens=25, output_tokens=15)
CACHE: dict[str, Any] = {"cache_creation_input_tokens": 300, "cache_read_input_tokens": 4000}
FIVE_MINUTES = CACHE | {"cache_creation": {"ephemeral_5m_input_tokens": 300, "ephemeral_1h_input_tokens": 0}}
BOTH = CACHE | {"cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 200}}
READ = Usage(
    input_tokens=4325, output_tokens=15, cache_read_tokens=4000, cache_write_5m_tokens=300, cache_write_1h_tokens=0
)
READ_BOTH = Usage(
    input_tokens=4325, output_tokens=15, cache_read_tokens=4000, cache_write_5m_tokens=100, cache_write_1h_tokens=200
)
UNSAID = Usage(input_tokens=4325, output_tokens=15, cache_read_tokens=4000, cache_write_5m_tokens=300)


def _tool() -> list[dict[str, Any]]:
    pieces = ['{"usage', '": {"input', '_tokens": 1}}']
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(*deltas, type="tool_use", id="toolu_1", name="mcp__mem__t0", input={})


def _thinking() -> list[dict[str, Any]]:
    deltas = [{"type": "thinking_delta", "thinking": "Hm"}, {"type": "signature_delta", "signature": "EqQB=="}]
    return block(*deltas, type="thinking", thinking="", signature="")


def _stream(name: str, body: bytes, usage: Usage = PLAIN, model: str | None = MODEL, **more: Any) -> Stream:
    return Stream(f"messages: {name}", "anthropic", body, usage, model, **more)


def _iterations(*entries: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0} | entry for entry in entries]


STREAMS = [
    _stream("streamed", named(start(), PING, *text("Hello"), delta(15), STOP)),
    _stream("a cache for five minutes", named(start(**FIVE_MINUTES), *text("a"), delta(15), STOP), READ),
    _stream("caches for both times", named(start(**BOTH), delta(15), STOP), READ_BOTH),
    _stream("a cache for no time that is said", named(start(**CACHE), delta(15), STOP), UNSAID),
    _stream("the cache told again at the end", named(start(**BOTH), delta(15, input_tokens=25, **CACHE), STOP), READ_BOTH),
    _stream(
        "null fields at the end",
        named(start(**BOTH), delta(15, input_tokens=None, cache_creation=None, cache_read_input_tokens=None), STOP),
        READ_BOTH,
    ),
    _stream(
        "thinking",
        named(start(), *_thinking(), *text("a"), delta(15, output_tokens_details={"thinking_tokens": 9}), STOP),
        Usage(input_tokens=25, output_tokens=15, reasoning_tokens=9),
    ),
    _stream("a tool whose input talks of usage", named(start(), *_tool(), delta(15, "tool_use"), STOP)),
    _stream(
        "a tool of the provider: counts that grow",
        named(
            start(),
            delta(5, "pause_turn", input_tokens=25),
            delta(15, input_tokens=10_682, cache_read_input_tokens=40, server_tool_use={"web_search_requests": 1}),
            STOP,
        ),
        Usage(input_tokens=10_722, output_tokens=15, cache_read_tokens=40),
    ),
    _stream(
        "an error in the middle",
        named(start(25, 3), *text("a"), OVERLOADED),
        Usage(input_tokens=25, output_tokens=3),
    ),
    _stream("an error at once", named(OVERLOADED), Usage(), None),
    _stream("cut before the end", named(start(25, 3), *text("a")), Usage(input_tokens=25, output_tokens=3)),
    _stream("cut in the end", named(start(25, 3), delta(15))[:-20], Usage(input_tokens=25, output_tokens=3)),
    _stream("crlf", named(start(), PING, *text("a"), delta(15), STOP, end="\r\n")),
    _stream("cr", named(start(), delta(15), STOP, end="\r")),
    _stream("comments and a mark", b"\xef\xbb\xbf: hi\n\n" + named(start()) + b":\n:\n\n" + named(delta(15), STOP)),
    _stream("many alphabets", named(start(), *text("Grüße, мир, 世界 🌍🏳️‍🌈"), delta(15), STOP)),
    _stream("a megabyte in one event", named(start(), *text(BIG), delta(15), STOP)),
    _stream("SGLang: the prompt is told at the end", named(start(0, 0), *text("a"), delta(15, input_tokens=25), STOP)),
    _stream("SGLang: a nought at the end says nothing", named(start(), delta(15, input_tokens=0), STOP)),
    _stream(
        "a compaction and an advisor beside the message",
        named(
            start(),
            delta(
                15,
                iterations=_iterations(
                    {"type": "compaction", "input_tokens": 180, "output_tokens": 35},
                    {"type": "advisor_message", "input_tokens": 40, "output_tokens": 7, "model": "claude-opus-5"},
                    {"type": "message", "input_tokens": 25, "output_tokens": 15},
                ),
            ),
            STOP,
        ),
        Usage(input_tokens=245, output_tokens=57, cache_read_tokens=0, cache_write_5m_tokens=0),
    ),
    _stream(
        "whole",
        compact(message({"input_tokens": 25, "output_tokens": 15} | BOTH, {"type": "text", "text": "Hi"})).encode(),
        READ_BOTH,
        content_type=JSON,
    ),
    _stream(
        "whole, pretty",
        pretty(message({"input_tokens": 25, "output_tokens": 15} | CACHE, {"type": "text", "text": "世界"})).encode(),
        UNSAID,
        content_type=JSON,
    ),
    _stream(
        "an error",
        compact({"type": "error", "error": {"type": "not_found_error", "message": "model: x"}, "request_id": "r"}).encode(),
        Usage(),
        None,
        content_type=JSON,
        status="404 Not Found",
    ),
]  # fmt: skip
