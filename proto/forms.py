"""The forms of texts that have one: a pattern for the decoder, and words for whoever wrote something else."""

from typing import Final, NamedTuple


class Form(NamedTuple):
    """A regular expression, anchored at both ends, and what it asks for in words."""

    pattern: str
    words: str


# `\Z` and not `$`: `$` would let a final line feed through.
SESSION: Final = Form(
    r"^(mm-[a-z0-9]{26}|chat-[a-z0-9-]{1,48}|run-[a-z0-9-]{1,48})\Z",
    "a session id, such as chat-20260924-210203-0a1b2c",
)
CALL: Final = Form(r"^[\x20-\x7e]{1,128}\Z", "a call id: 1 to 128 printable ASCII characters")
EDIT: Final = Form(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{4,12}\Z", "an edit id, such as 2026-09-24-0001")
APPROVAL: Final = Form(r"^ap-[0-9a-f]{16}\Z", "an approval id, such as ap-0123456789abcdef")
NAME: Final = Form(r"^[a-z][a-z0-9-]{0,62}\Z", "a name of lower-case letters, digits and hyphens")
DOMAIN: Final = Form(r"^dom-[a-z0-9-]{1,48}\Z", "a domain, such as dom-me")
TRACEPARENT: Final = Form(r"^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\Z", "a W3C traceparent")
TRACE_ID: Final = Form(r"^(?!0{32})[0-9a-f]{32}\Z", "a trace's id: 32 hexadecimal digits")
SPAN_ID: Final = Form(r"^(?!0{16})[0-9a-f]{16}\Z", "a span's id: 16 hexadecimal digits")
BASE_URL: Final = Form(
    r"^(https://[^/?#]+|http://(127\.[0-9.]+|localhost|\[::1\])(:[0-9]+)?|unix:[^?#]+)(/[^?#]*)?\Z",
    "https://HOST, http:// to loopback, or unix:PATH",
)
TUNNEL_HOST: Final = Form(
    r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*(:[1-9][0-9]{0,4})?\Z",
    "a host's name in lower case, and perhaps :PORT, such as api.github.com",
)
MATTERMOST_ID: Final = Form(r"^[a-z0-9]{26}\Z", "an id of Mattermost: 26 lower-case letters and digits")
SHA256: Final = Form(r"^[0-9a-f]{64}\Z", "a SHA-256 in hexadecimal")

_ALL: Final = (
    SESSION,
    CALL,
    EDIT,
    APPROVAL,
    NAME,
    DOMAIN,
    TRACEPARENT,
    TRACE_ID,
    SPAN_ID,
    BASE_URL,
    TUNNEL_HOST,
    MATTERMOST_ID,
    SHA256,
)


def in_words(message: str) -> str:
    """An error of msgspec, with the words of a form where it names the pattern."""
    for form in _ALL:
        message = message.replace(f"Expected `str` matching regex {form.pattern!r}", f"expected {form.words}")
    return message
