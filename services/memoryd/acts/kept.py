"""What the owner asks of kept material: the list, the bytes, their end."""

from typing import Final

from memoryd.holdings import Holdings
from memoryd.kept import item as names
from memoryd.kept.holding import OWNER
from proto.frame import MAX_FRAME
from proto.messages.memory import KeptErase, KeptItem, KeptList, KeptListReply, KeptShow, KeptShowReply

_PIECE_BYTES: Final = MAX_FRAME // 2
_PAGE_BYTES: Final = MAX_FRAME * 3 // 4
_ITEM_BYTES: Final = MAX_FRAME // 4


def newest(holdings: Holdings, request: KeptList) -> KeptListReply:
    """The items, as many as were asked for and the frame has room for."""
    found = holdings.kept.newest(request.kept, request.session, request.last + 1, request.before)
    shown: list[KeptItem] = []
    room_bytes = _PAGE_BYTES
    for item in found[: request.last]:
        fitted = names.fitted(item, _ITEM_BYTES)
        room_bytes -= len(names.encoded(fitted))
        if room_bytes < 0 and shown:
            break
        shown.append(fitted)
    return KeptListReply(items=shown, more=len(found) > len(shown))


def show(holdings: Holdings, request: KeptShow) -> KeptShowReply:
    """Bytes of a part.

    Raises:
        Fault: `kept-unknown`, `memory-unavailable`.

    """
    item = holdings.kept.find(request.kept, request.session, request.call)
    data = holdings.kept.read(item, request.part, request.offset, _PIECE_BYTES)
    size_bytes = 0 if item.erased else next(part.size_bytes for part in item.parts if part.name == request.part)
    end = request.offset + len(data)
    return KeptShowReply(
        item=names.fitted(item, _ITEM_BYTES), data=data, next_offset=end if data and end < size_bytes else None
    )


def erase(holdings: Holdings, request: KeptErase) -> int:
    """Erase the bodies of an item, or of all of a session; how many items lost theirs.

    Raises:
        Fault: `kept-unknown`, `memory-unavailable`.
        OSError: the disk refuses; those before are erased.

    """
    if request.call is not None:
        return int(holdings.kept.erase(request.kept, request.session, request.call, OWNER))
    return holdings.kept.erase_all(request.kept, request.session, OWNER)
