"""Chat completions, as OpenAI and the servers that speak its API send them."""

from typing import Any

from egressd.meter.usage import Usage
from tests.egressd.streams.shape import JSON, Stream, compact, data, pretty

MODEL = "gpt-5.4-mini-2026-03-05"


def chunk(
    delta: dict[str, Any] | None = None, finish: str | None = None, *, model: str = MODEL, **more: Any
) -> dict[str, Any]:
    """One chunk; without a delta it has no choice."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "chatcmpl-C9", "object": "chat.completion.chunk", "model": model, "choices": choices} | more


def text(content: str, **more: Any) -> dict[str, Any]:
    """A chunk with a piece of the answer."""
    return chunk({"content": content}, **more)


def whole(message: dict[str, Any], *, model: str = MODEL, **more: Any) -> dict[str, Any]:
    """An answer that is not streamed."""
    choices = [{"index": 0, "message": {"role": "assistant"} | message, "logprobs": None, "finish_reason": "stop"}]
    return {"id": "chatcmpl-C9", "object": "chat.completion", "model": model, "choices": choices} | more


def said(prompt: int, completion: int, total: int | None = None, **more: Any) -> dict[str, Any]:
    """A usage."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": total or prompt + completion,
    } | more


FULL = said(
    1200,
    300,
    prompt_tokens_details={"cached_tokens": 1024, "audio_tokens": 0, "cache_write_tokens": 128},
    completion_tokens_details={"reasoning_tokens": 192, "audio_tokens": 0, "accepted_prediction_tokens": 0},
)
READ = Usage(
    input_tokens=1200, output_tokens=300, cache_read_tokens=1024, cache_write_5m_tokens=128, reasoning_tokens=192
)
PLAIN = Usage(input_tokens=19, output_tokens=10)
ROLE = chunk({"role": "assistant", "content": "", "refusal": None}, usage=None)
STOP = chunk({}, "stop", usage=None)
LAST = chunk(usage=FULL)
PLAIN_LAST = chunk(usage=said(19, 10))
BIG = 'def f():\n\treturn "Grüße"\\n' * 40_000


def _tools() -> bytes:
    calls = {"index": 0, "id": "call_7", "type": "function", "function": {"name": "mem__t0", "arguments": ""}}
    pieces = ['{"path', '":"a.py"', ',"usage":{"prompt_tokens":1}}']
    deltas = [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces]
    return data(chunk({"tool_calls": [calls]}), *map(chunk, deltas), chunk({}, "tool_calls"), LAST, done=True)


def _fields() -> bytes:
    events = [f"id: {n}\nevent: chunk\nretry: 3000\ndata:{compact(value)}\n\n" for n, value in enumerate((ROLE, LAST))]
    return "".join(events).encode()


def _lines() -> bytes:
    return "".join(f"data: {line}\n" for line in pretty(LAST).splitlines()).encode() + b"\n"


def _stream(name: str, body: bytes, usage: Usage = READ, model: str | None = MODEL, **more: Any) -> Stream:
    return Stream(f"chat: {name}", "openai-chat", body, usage, model, **more)


OPENAI = [
    _stream("streamed", data(ROLE, text("Hel", usage=None), text("lo", usage=None), STOP, LAST, done=True)),
    _stream("no details", data(ROLE, text("Hi"), STOP, PLAIN_LAST, done=True), PLAIN),
    _stream("no usage asked for", data(ROLE, text("Hi"), STOP, done=True), Usage()),
    _stream("a tool call whose arguments talk of usage", _tools()),
    _stream("text that talks of usage", data(text('{"usage":{"prompt_tokens":1}}'), LAST, done=True)),
    _stream("usage in every chunk", data(*(text("a", usage=said(19, n)) for n in range(1, 11)), done=True), PLAIN),
    _stream("null fields after the usage", data(LAST, text("a", usage=None), chunk(usage={"prompt_tokens": None}))),
    _stream("a first chunk without a model", data({"choices": [], "model": "", "prompt_filter_results": []}, LAST)),
    _stream("the model changes", data(text("a", model="router"), LAST)),
    _stream("crlf", data(ROLE, text("a"), LAST, end="\r\n", done=True)),
    _stream("cr", data(ROLE, text("a"), LAST, end="\r", done=True)),
    _stream("a byte order mark", b"\xef\xbb\xbf" + data(ROLE, LAST, done=True)),
    _stream("blank lines first", b"\r\n\n\r" + data(ROLE, LAST, done=True)),
    _stream("ids, names and no space after the colon", _fields()),
    _stream("an event of several lines", _lines()),
    _stream("no end", data(ROLE, text("a"), LAST).rstrip(b"\n")),
    _stream("cut before the usage", data(ROLE, text("a")), Usage()),
    _stream("cut in the usage", data(text("a"), LAST)[:-60], Usage()),
    _stream("many alphabets", data(text("Grüße, мир, 世界 🌍🏳️‍🌈"), text("\\ud83c\\udf0d"), LAST, done=True)),
    _stream("an error in the middle", data(text("a"), {"error": {"message": "try later", "code": 503}}), Usage()),
    _stream("an error after the usage", data(LAST, {"error": {"message": "reset", "type": "server_error"}})),
    _stream("a megabyte in one event", data(ROLE, text(BIG), LAST, done=True)),
    _stream("a megabyte beside the usage", data(ROLE, text(BIG, usage=FULL), done=True)),
    _stream("whole", compact(whole({"content": "Hello"}, usage=FULL)).encode(), content_type=JSON),
    _stream("whole, pretty", (pretty(whole({"content": "Grüße"}, usage=FULL)) + "\n").encode(), content_type=JSON),
    _stream("whole, wrongly named", b"\n " + compact(whole({"content": "a"}, usage=FULL)).encode()),
    _stream("streamed, wrongly named", data(ROLE, LAST, done=True), content_type=JSON),
    _stream("a megabyte, whole", compact(whole({"content": BIG}, usage=FULL)).encode(), content_type=JSON),
    _stream(
        "an error",
        compact({"error": {"message": "bad key", "type": "invalid_request_error", "param": None}}).encode(),
        Usage(),
        None,
        content_type=JSON,
        status="401 Unauthorized",
    ),
]

_CACHED = Usage(input_tokens=3019, output_tokens=104, cache_read_tokens=2048)
_XAI = said(32, 9, 135, completion_tokens_details={"reasoning_tokens": 94}, prompt_tokens_details={"cached_tokens": 6})
OTHERS = [
    _stream(
        "DeepSeek: keep-alive comments, hits and misses",
        b": keep-alive\n\n: keep-alive\n\n"
        + data(
            chunk({"content": None, "reasoning_content": "Hm"}),
            chunk(
                {"content": ""},
                "stop",
                usage=said(3019, 104, prompt_cache_hit_tokens=2048, prompt_cache_miss_tokens=971),
            ),
            done=True,
        ),
        _CACHED,
    ),
    _stream(
        "OpenRouter: comments in the middle, cost",
        b": OPENROUTER PROCESSING\n\n"
        + data(text("a"))
        + b": OPENROUTER PROCESSING\n\n"
        + data(chunk({"content": ""}, usage=FULL | {"cost": 0.0123, "cost_details": {}}), done=True),
    ),
    _stream(
        "xAI: reasoning beside the completion",
        data(text("101"), chunk({"content": ""}, "stop"), chunk(usage=_XAI), done=True),
        Usage(input_tokens=32, output_tokens=103, cache_read_tokens=6, reasoning_tokens=94),
    ),
    _stream(
        "Groq: usage in x_groq",
        data(text("a", x_groq={"id": "req_1"}), chunk({}, "stop", x_groq={"id": "req_1", "usage": said(19, 10)})),
        PLAIN,
    ),
    _stream(
        "Moonshot: usage in the choice",
        data(
            {
                "id": "c",
                "model": MODEL,
                "choices": [{"index": 0, "delta": {}, "usage": said(3019, 104, cached_tokens=2048)}],
            },
            done=True,
        ),
        _CACHED,
    ),
    _stream(
        "DashScope: a cache that was written",
        data(
            text("a"),
            chunk(
                usage=said(
                    1605,
                    187,
                    prompt_tokens_details={
                        "cache_type": "ephemeral",
                        "cached_tokens": 0,
                        "cache_creation_input_tokens": 1494,
                        "cache_creation": {"ephemeral_5m_input_tokens": 1494},
                    },
                )
            ),
            done=True,
        ),
        Usage(input_tokens=1605, output_tokens=187, cache_read_tokens=0, cache_write_5m_tokens=1494),
    ),
    _stream(
        "LiteLLM: a cache that was written for an hour",
        data(
            chunk(
                usage=said(
                    900,
                    20,
                    cache_read_input_tokens=500,
                    cache_creation_input_tokens=300,
                    prompt_tokens_details={
                        "cached_tokens": 500,
                        "cache_creation_tokens": 300,
                        "cache_creation_token_details": {
                            "ephemeral_5m_input_tokens": 100,
                            "ephemeral_1h_input_tokens": 200,
                        },
                    },
                )
            ),
            done=True,
        ),
        Usage(
            input_tokens=900,
            output_tokens=20,
            cache_read_tokens=500,
            cache_write_5m_tokens=100,
            cache_write_1h_tokens=200,
        ),
    ),
    _stream(
        "llama.cpp: timings",
        data(
            text("a", model="local.gguf"), chunk({}, "stop", model="local.gguf", usage=said(19, 10), timings={"n": 1})
        ),
        PLAIN,
        "local.gguf",
    ),
]

STREAMS = OPENAI + OTHERS
