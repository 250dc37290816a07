"""OpenAI chat completions: usage and model out of an answer, streamed (server-sent events) or one JSON value.

Which of the two it is, the first byte tells; servers name the content type wrongly more often than they begin an event
with a brace. The last value of each field wins.

Source: the OpenAI API reference, "Chat": `usage.prompt_tokens`, `usage.completion_tokens`,
`usage.prompt_tokens_details.cached_tokens`, `usage.completion_tokens_details.reasoning_tokens`.
"""

from typing import Any, Final

import msgspec

from egressd.meter.events import Events
from egressd.meter.usage import Usage, latest, tokens

LONGEST_JSON_BYTES: Final = 16 << 20
_json: Final = msgspec.json.Decoder()
_SPACE: Final = b" \t\r\n"


class OpenAiChat:
    """The meter of one answer."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.model: str | None = None
        self._events: Events | None = None
        self._json: list[bytes] | None = None
        self._json_bytes = 0

    def feed(self, body: bytes) -> None:
        """Take the next piece of the body."""
        if self._events is None and self._json is None:
            start = body.lstrip(_SPACE)
            if not start:
                return
            if start.startswith((b"{", b"[")):
                self._json = []
            else:
                self._events = Events()
        if self._events is not None:
            for data in self._events.feed(body):
                self._event(data)
        elif self._json is not None:
            self._json_bytes += len(body)
            if self._json_bytes <= LONGEST_JSON_BYTES:
                self._json.append(body)

    def end(self) -> None:
        """Take what stands without its end."""
        if self._events is not None:
            for data in self._events.end():
                self._event(data)
        elif self._json is not None and self._json_bytes <= LONGEST_JSON_BYTES:
            self._value(b"".join(self._json))
            self._json = []

    def _event(self, data: bytes) -> None:
        # Most events hold neither: what is not looked for is not decoded.
        if self.model is None or b'"usage"' in data:
            self._value(data)

    def _value(self, data: bytes) -> None:
        try:
            value = _json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if not isinstance(value, dict):
            return
        if isinstance(model := value.get("model"), str) and model:
            self.model = model
        self.usage = latest(self.usage, _usage(value.get("usage")))


def _usage(untrusted: Any) -> Usage:
    found = _map(untrusted)
    return Usage(
        input_tokens=tokens(found.get("prompt_tokens")),
        output_tokens=tokens(found.get("completion_tokens")),
        cache_read_tokens=tokens(_map(found.get("prompt_tokens_details")).get("cached_tokens")),
        reasoning_tokens=tokens(_map(found.get("completion_tokens_details")).get("reasoning_tokens")),
    )


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
