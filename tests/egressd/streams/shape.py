"""What a recorded stream is, and the framings that providers put around their JSON."""

import json
from typing import Any, NamedTuple

from egressd.meter.usage import Usage
from proto.rules import ModelApi

EVENTS = "text/event-stream"
JSON = "application/json"


class Stream(NamedTuple):
    """An answer's body as a provider sends it, with the usage and the model that are in it."""

    name: str
    api: ModelApi
    body: bytes
    usage: Usage
    model: str | None
    content_type: str = EVENTS
    status: str = "200 OK"

    @property
    def is_small(self) -> bool:
        """Whether it may be cut at every byte; another one is cut at a thousand places."""
        return len(self.body) < 4096


def compact(value: Any) -> str:
    """JSON as most servers write it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def pretty(value: Any) -> str:
    """JSON as it is written when nobody counts bytes."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def data(*values: Any, end: str = "\n", done: bool = False) -> bytes:
    """Events with nothing but data; a value that is text already goes as it is."""
    texts = [value if isinstance(value, str) else compact(value) for value in values] + ["[DONE]"] * done
    return "".join(f"data: {text}{end}{end}" for text in texts).encode()


def named(*events: dict[str, Any], end: str = "\n") -> bytes:
    """Events whose name is the `type` of their data."""
    return "".join(f"event: {event['type']}{end}data: {compact(event)}{end}{end}" for event in events).encode()


def array(*values: Any, end: str = "\n") -> bytes:
    """An array whose members are written one by one, as Google's servers do."""
    return (f"[{f'{end},{end}'.join(map(pretty, values))}{end}]{end}").encode()
