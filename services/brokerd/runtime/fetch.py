"""Fetches: one decided hop at egressd. A redirect comes back, to be decided."""

from pathlib import Path
from typing import Final

from brokerd.runtime.outcome import Done, Redirect
from proto.escape import clip
from proto.faults import Fault
from proto.messages.broker import ToolRequest
from proto.messages.egress import Fetch, Fetched, FetchFailed, FetchRedirected
from proto.role.call import call
from proto.urls import join_url, parse_url

MOST_REDIRECTS: Final = 5
TOO_MANY_REDIRECTS: Final = f"the page redirects more than {MOST_REDIRECTS} times"
_BAD_REDIRECT: Final = "the page redirects to something that is not a URL"
_MOST_TEXT_BYTES: Final = 800_000
"""Of a page, so that the result fits a frame with room to spare."""


async def run(socket: Path, timeout_s: float, request: ToolRequest, *, loopback: bool, hop: int) -> Done | Redirect:
    """The page, the next hop, or a failure with its sentence.

    A failure after a redirect tells something of what was reached, and has the grant's label.
    """
    url = str(parse_url(request.arguments["url"]))
    hop_request = Fetch(session=request.session, call=request.call, url=url, loopback=loopback, trace=request.trace)
    try:
        reply = await call(
            socket,
            hop_request,
            Fetched,
            FetchRedirected,
            FetchFailed,
            timeout_s=timeout_s,
            unreachable="egressd-unreachable",
        )
    except Fault as fault:
        return Done(ok=False, text=str(fault), granted=hop > 0)
    match reply:
        case FetchRedirected():
            return _redirect(url, reply.location)
        case Fetched():
            return Done(ok=True, text=page_text(reply))
        case _:
            return Done(ok=False, text=reply.message, granted=hop > 0)


def page_text(page: Fetched) -> str:
    """A page as a result: a line that says what it is, an empty line, and its text."""
    text, cut = page.text, page.truncated
    data = text.encode()
    if len(data) > _MOST_TEXT_BYTES:
        text, cut = data[:_MOST_TEXT_BYTES].decode(errors="ignore"), True
    parts = [clip(page.url, 2048), str(page.status), clip(page.content_type, 100)]
    head = " · ".join(part for part in (*parts, "cut" if cut else "") if part)
    return f"{head}\n\n{text}"


def _redirect(url: str, location: str) -> Done | Redirect:
    try:
        return Redirect(str(join_url(parse_url(url), location)))
    except ValueError:
        return Done(ok=False, text=_BAD_REDIRECT)
