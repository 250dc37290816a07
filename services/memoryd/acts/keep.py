"""Keeping what another daemon recorded: an item in pieces, then whole, with the entries that its session was served."""

from datetime import timedelta
from typing import Final

import msgspec

from memoryd.holdings import Holdings
from memoryd.kept import item as names
from proto.faults import Fault
from proto.messages.memory import KeepBegin, KeepEnd, KeepWhole, KeptItem
from proto.role.clock import parse, stamp

_MOST_DAYS: Final = 36_500


def begin(holdings: Holdings, request: KeepBegin) -> str:
    """Begin an item; the handle under which pieces come.

    Raises:
        Fault: `kept-refused`, `busy`.

    """
    if not names.names_a_file(request.call):
        raise Fault("kept-refused", "an item's call is made of letters, digits, - and _")
    _times(request)
    return holdings.inbox.begin(request)


def end(holdings: Holdings, request: KeepEnd) -> bool:
    """Keep an item that is whole, on disk when this returns; whether it is new.

    Raises:
        Fault: `kept-refused`.
        OSError: the disk refuses; it is not kept.

    """
    whole = holdings.inbox.take(request.handle, request.parts)
    try:
        item = _item(whole.begun, request)
        if item.kept == "contexts" and item.context is None:
            raise Fault("kept-refused", "a decision context says what call it is of")
        if len(names.encoded(item)) > names.MOST_SAID_BYTES:
            raise Fault("kept-refused", f"what is said of an item has at most {names.MOST_SAID_BYTES:,} bytes")
        entries = holdings.recalls.served(item.session, item.time)
        return holdings.kept.put(msgspec.structs.replace(item, entries=entries), whole.paths)
    except BaseException:
        whole.drop()
        raise


def whole(holdings: Holdings, request: KeepWhole) -> bool:
    """Keep an item that came in one step, as `begin`, its pieces and `end` do.

    Raises:
        Fault: `kept-refused`, `busy`, `memory-unavailable`; nothing is left of it.
        OSError: the disk refuses; it is not kept.

    """
    if len(request.parts) != len(request.bodies):
        raise Fault("kept-refused", "an item has a body for each of its parts")
    handle = begin(holdings, request.begun)
    try:
        for part, data in zip(request.parts, request.bodies, strict=True):
            holdings.inbox.piece(handle, part.name, 0, data)
    except Fault:
        holdings.inbox.drop(handle)
        raise
    return end(holdings, KeepEnd(handle=handle, parts=request.parts, context=None))


def _item(begun: KeepBegin, ended: KeepEnd) -> KeptItem:
    time, drop_after = _times(begun)
    return KeptItem(
        kept=begun.kept,
        session=begun.session,
        call=begun.call,
        domain=begun.domain,
        class_=begun.class_,
        untrusted=begun.untrusted,
        observed_by=begun.observed_by,
        time=time,
        drop_after=drop_after,
        entries=[],
        parts=ended.parts,
        context=ended.context or begun.context,
        erased=None,
    )


def _times(begun: KeepBegin) -> tuple[str, str]:
    """When an item is from, and when its bodies go.

    Raises:
        Fault: `kept-refused`: the time is none, or too far away.

    """
    if not 0 <= begun.retention_days <= _MOST_DAYS:
        raise Fault("kept-refused", f"an item is kept for 0 to {_MOST_DAYS:,} days")
    try:
        time = parse(begun.time)
        return stamp(time), stamp(time + timedelta(days=begun.retention_days))
    except (ValueError, OverflowError):
        raise Fault("kept-refused", "the time is none that can be kept; it is RFC 3339") from None
