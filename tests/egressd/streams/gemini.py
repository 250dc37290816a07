"""Gemini's answers, as the Gemini API, Vertex AI and Code Assist send them."""

from typing import Any

from egressd.meter.usage import Usage
from tests.egressd.streams.shape import JSON, Stream, array, compact, data, pretty

MODEL = "gemini-3-pro-preview"
IMAGE = "iVBORw0KGgoAAAANSUhEUgAA" * 45_000
BIG = "print(\"Grüße\", '世界')\\n" * 45_000


def said(prompt: int, candidates: int | None = None, thoughts: int | None = None, **more: Any) -> dict[str, Any]:
    """A usage; the total is the sum unless it is given."""
    counts = {"promptTokenCount": prompt, "candidatesTokenCount": candidates, "thoughtsTokenCount": thoughts}
    known = {name: count for name, count in counts.items() if count is not None}
    total = sum(known.values()) + more.get("toolUsePromptTokenCount", 0)
    return (
        known | {"totalTokenCount": total, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": prompt}]} | more
    )


def answer(usage: Any, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An answer, or a part of a streamed one."""
    candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": MODEL, "responseId": "Qx9"} | more


def text(content: str, usage: Any, **more: Any) -> dict[str, Any]:
    """A part of text."""
    return answer(usage, {"text": content}, **more)


CACHED = {"cachedContentTokenCount": 2048, "cacheTokensDetails": [{"modality": "TEXT", "tokenCount": 2048}]}
FIRST = text("Grüße ", said(3000, 4, 120))
LAST = text("🌍", said(3000, 31, 120))
READ = Usage(input_tokens=3000, output_tokens=151, reasoning_tokens=120)
CACHED_LAST = text("🌍", said(3000, 31, 120, **CACHED))
READ_CACHED = Usage(input_tokens=3000, output_tokens=151, cache_read_tokens=2048, reasoning_tokens=120)
PLAIN = Usage(input_tokens=7, output_tokens=3)
ERROR = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
CALL = {"functionCall": {"name": "t0", "args": {"usageMetadata": {"promptTokenCount": 1}}}, "thoughtSignature": "Ep=="}


def _stream(name: str, body: bytes, usage: Usage = READ, model: str | None = MODEL, **more: Any) -> Stream:
    return Stream(f"gemini: {name}", "gemini", body, usage, model, **more)


GEMINI = [
    _stream("streamed", data(FIRST, LAST, end="\r\n")),
    _stream("usage that grows", data(*(text("a", said(7, n)) for n in (1, 2, 3)), end="\r\n"), PLAIN),
    _stream("a cache", data(FIRST, CACHED_LAST, end="\r\n"), READ_CACHED),
    _stream("a cache told at first", data(CACHED_LAST, LAST), READ_CACHED),
    _stream(
        "thoughts alone, then text",
        data(answer(said(7, None, 90), {"text": "Hm", "thought": True}), text("a", said(7, 3, 90))),
        Usage(input_tokens=7, output_tokens=93, reasoning_tokens=90),
    ),
    _stream(
        "cut while it thinks",
        data(answer(said(7, None, 90), {"text": "Hm", "thought": True})),
        Usage(input_tokens=7, output_tokens=90, reasoning_tokens=90),
    ),
    _stream(
        "thoughts that are counted among the candidates",
        data(text("a", {"promptTokenCount": 7, "candidatesTokenCount": 93, "thoughtsTokenCount": 90, "totalTokenCount": 100})),
        Usage(input_tokens=7, output_tokens=93, reasoning_tokens=90),
    ),
    _stream(
        "code that Google ran",
        data(answer(said(80, 173, 60, toolUsePromptTokenCount=237), {"executableCode": {"language": "PYTHON", "code": "1"}})),
        Usage(input_tokens=317, output_tokens=233, reasoning_tokens=60),
    ),
    _stream("a call whose arguments talk of usage", data(answer(said(3000, 4, 120), CALL), LAST)),
    _stream("usage in a part of its own", data(text("a", None), {"usageMetadata": said(7, 3), "modelVersion": MODEL}), PLAIN),
    _stream("blocked", data({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": said(7), "modelVersion": MODEL}), Usage(input_tokens=7, output_tokens=0)),
    _stream("an error in the middle", data(FIRST, ERROR), Usage(input_tokens=3000, output_tokens=124, reasoning_tokens=120)),
    _stream("an error in bare lines", data(FIRST) + pretty(ERROR).encode(), Usage(input_tokens=3000, output_tokens=124, reasoning_tokens=120)),
    _stream("lf and comments", b": x\n\n" + data(FIRST) + b":\n\n" + data(LAST)),
    _stream("a megabyte in one event", data(FIRST, text(BIG, said(3000, 31, 120)), end="\r\n")),
    _stream("a stream that is an array", array(FIRST, CACHED_LAST), READ_CACHED, content_type=JSON),
    _stream("an array, crlf", array(FIRST, LAST, end="\r\n"), content_type=JSON),
    _stream("an array in one line", f"[{compact(FIRST)},{compact(LAST)}]".encode(), content_type=JSON),
    _stream("an array of brackets in text", array(text('}]{["\\', said(7, 1)), text("\\\\", said(7, 3))), PLAIN, content_type=JSON),
    _stream("an array that is cut", array(FIRST, LAST)[:-300], Usage(input_tokens=3000, output_tokens=124, reasoning_tokens=120), content_type=JSON),
    _stream("an array with an error", array(LAST, ERROR), content_type=JSON),
    _stream("an array of an error", array(ERROR), Usage(), None, content_type=JSON, status="503 Service Unavailable"),
    _stream("an array with a megabyte", array(FIRST, text(BIG, None), LAST), content_type=JSON),
    _stream("whole", pretty(CACHED_LAST).encode(), READ_CACHED, content_type=JSON),
    _stream("whole, compact", compact(answer(said(3000, 31, 120), CALL)).encode(), content_type=JSON),
    _stream(
        "a picture of a megabyte",
        pretty(answer(said(7, 1290), {"inlineData": {"mimeType": "image/png", "data": IMAGE}})).encode(),
        Usage(input_tokens=7, output_tokens=1290),
        content_type=JSON,
    ),
    _stream("an error", pretty(ERROR).encode(), Usage(), None, content_type=JSON, status="503 Service Unavailable"),
]  # fmt: skip


def wrapped(value: dict[str, Any]) -> dict[str, Any]:
    """An answer as Code Assist sends it."""
    return {"response": value, "traceId": "a1b2c3", "metadata": {}}


def _assist(name: str, body: bytes, usage: Usage = READ, model: str | None = MODEL, **more: Any) -> Stream:
    return Stream(f"code assist: {name}", "code-assist", body, usage, model, **more)


CODE_ASSIST = [
    _assist("streamed", data(wrapped(FIRST), wrapped(LAST), end="\r\n")),
    _assist("a cache", data(wrapped(FIRST), wrapped(CACHED_LAST)), READ_CACHED),
    _assist("usage that grows", data(*(wrapped(text("世界", said(7, n))) for n in (1, 2, 3)), end="\r\n"), PLAIN),
    _assist("a call whose arguments talk of usage", data(wrapped(answer(said(3000, 4, 120), CALL)), wrapped(LAST))),
    _assist("an error in the middle", data(wrapped(LAST), ERROR)),
    _assist("cut in the usage", data(wrapped(FIRST), wrapped(LAST))[:-200], Usage(input_tokens=3000, output_tokens=124, reasoning_tokens=120)),
    _assist("a megabyte in one event", data(wrapped(FIRST), wrapped(text(BIG, said(3000, 31, 120))))),
    _assist("a stream that is an array", array(wrapped(FIRST), wrapped(LAST)), content_type=JSON),
    _assist("whole", pretty(wrapped(CACHED_LAST)).encode(), READ_CACHED, content_type=JSON),
    _assist("an error", compact(ERROR).encode(), Usage(), None, content_type=JSON, status="503 Service Unavailable"),
]  # fmt: skip

STREAMS = GEMINI + CODE_ASSIST
