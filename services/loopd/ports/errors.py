"""What a model's, a provider's or egressd's error becomes: a code of `proto.faults` and one sentence for the owner."""

import json
import re
from typing import Any, Final

from loopd.turn.steps import Failed
from proto.escape import clip
from proto.faults import FAULTS

_OF_EGRESS: Final = frozenset(
    {
        "ceiling", "credential-missing", "destination-unknown", "upstream-unreachable", "session-not-open",
        "session-state-lost", "brokerd-unreachable", "rules-invalid", "policy-invalid", "busy", "internal",
    }
)  # fmt: skip
"""Codes of egressd's own refusals: what it says is said on as it is."""
_FULL_CODES: Final = frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"})
_FULL_WORDS: Final = re.compile(
    r"maximum context length|context (length|window|size)( is)? exceeded|exceeds? the (available )?context|"
    r"prompt is too long|too many tokens|input is too long",
    re.IGNORECASE,
)
_QUOTED_CHARS: Final = 200
_SENTENCES: Final = {
    400: "the model's provider refused the request",
    401: "the model's provider refused the key",
    402: "the model's provider wants to be paid",
    403: "the model's provider refused this key the request",
    404: "the model's provider has no such model",
    429: "the model's provider takes no more requests for now; try again later",
}
_SERVER: Final = "the model's provider failed"


def of_response(status: int, body: bytes) -> Failed:
    """The failure that an HTTP answer other than 200 tells of."""
    error = _error(body)
    return _egress_refusal(error) or _failure(status, error, f"HTTP {status}")


def of_chunk(chunk: Any) -> Failed | None:
    """The failure that a chunk of a stream tells of, if it does."""
    if isinstance(chunk, dict) and chunk.get("error"):
        return _failure(500, _as_error(chunk["error"]), "in its stream")
    return None


def _egress_refusal(error: dict[str, Any]) -> Failed | None:
    code, message = error.get("code"), error.get("message")
    if not isinstance(code, str) or code not in _OF_EGRESS:
        return None
    said = clip(message, 2 * _QUOTED_CHARS) if isinstance(message, str) and message else FAULTS[code].sentence
    return Failed(code, said)


def _failure(status: int, error: dict[str, Any], where: str) -> Failed:
    message = error.get("message")
    message = message if isinstance(message, str) else ""
    if status == 413 or {error.get("code"), error.get("type")} & _FULL_CODES or _FULL_WORDS.search(message):
        return Failed("session-full", FAULTS["session-full"].sentence)
    code = "model-unavailable" if status == 429 or status >= 500 else "model-error"
    sentence = _SENTENCES.get(status, _SERVER if status >= 500 else _SENTENCES[400])
    quoted = f": {clip(message, _QUOTED_CHARS)}" if message else ""
    return Failed(code, f"{sentence} ({where}){quoted}")


def _error(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {"message": body.decode(errors="replace").strip()}
    return _as_error(value.get("error", value) if isinstance(value, dict) else value)


def _as_error(value: Any) -> dict[str, Any]:
    """An error as a map whose code and type are texts: some servers give a text, and numbers as codes."""
    if not isinstance(value, dict):
        return {"message": str(value)}
    return {**value, "code": str(value.get("code", "")), "type": str(value.get("type", ""))}
