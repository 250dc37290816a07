"""`bxctl context …`: the decision contexts, each model call as it left and as it was answered."""

import sys
from collections.abc import Iterator
from typing import Annotated, Final, Literal

import msgspec
import typer

from bxctl import exits, render
from bxctl.options import Home, Json, MemorySocket, session_id
from bxctl.places import Box, find
from proto.escape import clip
from proto.faults import Fault
from proto.ids import CallId
from proto.labels import Label
from proto.messages.memory import KeptErase, KeptErased, KeptItem, KeptList, KeptListReply, KeptShow, KeptShowReply

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_ROW: Final = "owner-memory"
_DEFAULT: Final = 20
_MOST_A_PAGE: Final = 1_000
_MOST: Final = 1_000_000
_ERASE_S: Final = 3600.0
_MOST_INFLATED_BYTES: Final = 64 << 20
_HEADERS: Final = ("time", "session", "turn", "call", "destination", "model", "status", "label", "bytes", "kept until")


def _call_id(text: str | None) -> str | None:
    try:
        return None if text is None else msgspec.convert(text, CallId)
    except msgspec.ValidationError:
        raise typer.BadParameter(f"{clip(text or '', 80)} is no id of a call; bxctl context list shows them") from None


Session = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id", callback=session_id)]
Call = Annotated[str, typer.Argument(metavar="CALL", help="The call's id", callback=_call_id)]


@group.command("list")
def list_contexts(
    session: Annotated[str | None, typer.Option(metavar="ID", help="Only this session's", callback=session_id)] = None,
    last: Annotated[int, typer.Option("--last", "-n", min=1, max=_MOST, help="How many")] = _DEFAULT,
    home: Home = None,
    memory_socket: MemorySocket = None,
    json: Json = False,
) -> int:
    """List the model calls that were kept, newest first.

    Example: bxctl context list --session chat-20260924-210203-0a1b2c
    """
    box = find(home, memory_socket)
    reply = _newest(box, session, last)
    if json:
        render.as_json(reply)
        return exits.OK
    render.table(_HEADERS, map(_row, reply.items), empty="no model call is kept")
    if reply.more:
        named = () if session is None else ("--session", session)
        command = box.command("context", "list", *named, "-n", str(min(last * 10, _MOST)))
        render.line(f"there are older ones; more with: {command}")
    return exits.OK


@group.command()
def show(
    session: Session,
    call: Call,
    *,
    part: Annotated[Literal["request", "response"] | None, typer.Option(help="Only this body")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="The bytes of --part exactly as they went over the wire")] = False,
    home: Home = None,
    memory_socket: MemorySocket = None,
    json: Json = False,
) -> int:
    """Show a model call: where it went and what came of it, the request as it left, the answer as it came.

    Example: bxctl context show chat-20260924-210203-0a1b2c model-0123456789abcdef --part request --raw
    """
    box = find(home, memory_socket)
    if raw and part is None:
        raise typer.BadParameter("--raw gives the bytes of one body: add --part request or --part response")
    if raw:
        return _raw(box, session, call, part or "request")
    item = _item(box, session, call, part or "request")
    if json:
        render.as_json(item)
        return exits.OK
    _said(item)
    if item.erased is None:
        for body in item.parts:
            if part in (None, body.name):
                _pretty(box, item, body.name)
    return exits.OK


@group.command()
def erase(
    session: Session,
    call: Annotated[str | None, typer.Argument(metavar="[CALL]", help="Only this call", callback=_call_id)] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask")] = False,
    home: Home = None,
    memory_socket: MemorySocket = None,
    json: Json = False,
) -> int:
    """Erase the bodies of a session's kept calls, or of one; what stays is that there was a call, and of what size.

    Example: bxctl context erase chat-20260924-210203-0a1b2c
    """
    box = find(home, memory_socket)
    if not yes:
        if not render.is_conversation():
            raise typer.BadParameter("nobody is there to be asked; add --yes")
        typer.confirm(f"Erase what is kept of {call or 'every call'} of {session}, for good?", abort=True)
    asked = KeptErase(kept="contexts", session=session, call=call)
    done: KeptErased = box.ask(_ROW, asked, KeptErased, timeout_s=_ERASE_S)
    if json:
        render.as_json(done)
    else:
        render.line(f"erased: {done.items:,} context{'' if done.items == 1 else 's'}")
    return exits.OK


def _newest(box: Box, session: str | None, last: int) -> KeptListReply:
    """So many of the newest, over as many replies as it takes."""
    items: list[KeptItem] = []
    more, before = True, None
    while more and len(items) < last:
        page = min(last - len(items), _MOST_A_PAGE)
        asked = KeptList(kept="contexts", session=session, last=page, before=before)
        reply: KeptListReply = box.ask(_ROW, asked, KeptListReply)
        items += reply.items
        more = reply.more and bool(reply.items)
        before = f"{items[-1].time} {items[-1].session} {items[-1].call}" if items else None
    return KeptListReply(items=items, more=more)


def _row(item: KeptItem) -> tuple[str | None, ...]:
    about = item.context
    turn, destination, model, status = (
        (None,) * 4 if about is None else (str(about.turn), about.destination, about.model, str(about.status))
    )
    return (
        item.time,
        item.session,
        turn,
        item.call,
        destination,
        model,
        status,
        str(Label(class_=item.class_, untrusted=item.untrusted)),
        f"{sum(part.size_bytes for part in item.parts):,}",
        render.minute(item.drop_after) if item.erased is None else f"erased ({item.erased})",
    )


def _pieces(box: Box, session: str, call: str, part: str) -> Iterator[KeptShowReply]:
    at: int | None = 0
    while at is not None:
        asked = KeptShow(kept="contexts", session=session, call=call, part=part, offset=at)
        reply: KeptShowReply = box.ask(_ROW, asked, KeptShowReply)
        yield reply
        at = reply.next_offset


def _item(box: Box, session: str, call: str, part: str) -> KeptItem:
    return next(_pieces(box, session, call, part)).item


def _raw(box: Box, session: str, call: str, part: str) -> int:
    for reply in _pieces(box, session, call, part):
        if reply.item.erased is not None:
            raise Fault("kept-unknown", f"the bodies of this call were erased ({reply.item.erased})")
        sys.stdout.buffer.write(reply.data)
    sys.stdout.buffer.flush()
    return exits.OK


def _said(item: KeptItem) -> None:
    """Print what is said of a call."""
    colours = render.coloured()
    render.heading(f"{item.session} {item.call}", on=colours)
    about = item.context
    if about is not None:
        render.line(f"turn {about.turn} · {about.method} {about.path} · {about.status or 'no answer'}")
        render.line(f"to {about.destination} ({about.route}, {about.auth}) · {about.model}")
    label = Label(class_=item.class_, untrusted=item.untrusted)
    render.line(f"{item.time} · {label} · {item.domain} · observed by {item.observed_by}")
    gone = f"erased ({item.erased})" if item.erased else f"kept until {item.drop_after}"
    render.line(gone)
    if item.entries:
        render.line("served until then:", ", ".join(item.entries))
    for part in item.parts:
        render.line(
            f"{part.name}: {part.size_bytes:,} bytes{'' if part.whole else ', not whole'} · sha256 {part.sha256}"
        )


def _pretty(box: Box, item: KeptItem, part: str) -> None:
    """Print a body so that it can be read."""
    data = b"".join(reply.data for reply in _pieces(box, item.session, item.call, part))
    headers = {name: value for body in item.parts if body.name == part for name, value in body.headers}
    print()
    render.heading(part, on=render.coloured())
    for name, value in headers.items():
        render.line(f"{name}: {value}")
    render.lines(_readable(data, headers.get("content-encoding", "")))


def _readable(data: bytes, encoding: str) -> str:
    """A body as text, also one that was cut within a character; JSON with an indent."""
    import codecs
    import json
    import zlib

    if encoding in {"gzip", "deflate"}:
        try:
            data = zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data, _MOST_INFLATED_BYTES)
        except zlib.error:
            return f"({len(data):,} bytes that cannot be decompressed; --raw gives them)"
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return f"({len(data):,} bytes that are no text; --raw gives them)"
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
