"""An item as its `.json` holds it, the names of its files, and how much of it a reply has room for. No I/O."""

import re
from typing import Final, NamedTuple, get_args

import msgspec

from proto import forms
from proto.messages.memory import KeptItem, KeptKind

KINDS: Final[tuple[KeptKind, ...]] = get_args(KeptKind)
MOST_SAID_BYTES: Final = 128 << 10
"""How long what is said of an item may be, its entries not counted."""
_CALL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}\Z")
_BODY: Final = re.compile(r"(?P<call>[A-Za-z0-9][A-Za-z0-9_-]{0,127})\.(?P<part>[a-z][a-z0-9-]{0,62})\Z")
_SAID: Final = "json"
_LEFT_OUT_BYTES: Final = 24


class Where(NamedTuple):
    """Where an item lies."""

    kept: KeptKind
    domain: str
    session: str
    call: str


class Slim(msgspec.Struct, frozen=True, gc=False):
    """What a listing takes of an item, and what it is decoded to where there are very many of them."""

    kept: KeptKind
    session: str
    call: str
    domain: str
    time: str
    drop_after: str
    erased: str | None

    @property
    def where(self) -> Where:
        """Where it lies."""
        return Where(self.kept, self.domain, self.session, self.call)


_decoder: Final = msgspec.json.Decoder(KeptItem)
_slim_decoder: Final = msgspec.json.Decoder(Slim)


def folder_name(kept: KeptKind) -> str:
    """The folder of a kind in a domain's."""
    return f".{kept}"


def said_name(call: str) -> str:
    """The file that says what an item is."""
    return f"{call}.{_SAID}"


def body_name(call: str, part: str) -> str:
    """The file of a body."""
    return f"{call}.{part}"


def call_of(name: str) -> tuple[str, bool] | None:
    """The call that a file's name is of, and whether it is the `.json`; None for a name that is none of ours."""
    found = _BODY.match(name)
    return None if found is None else (found["call"], found["part"] == _SAID)


def names_a_file(call: str) -> bool:
    """Whether a call's id can name files: letters, digits, `-` and `_`, which a path cannot be made of."""
    return _CALL.match(call) is not None


def names_a_body(part: str) -> bool:
    """Whether a part's name can be a body's; the `.json` is none."""
    return part != _SAID


def is_domain(name: str) -> bool:
    """Whether a folder's name is a domain's."""
    return re.match(forms.DOMAIN.pattern, name) is not None


def encoded(item: KeptItem) -> bytes:
    """The content of an item's `.json`."""
    return msgspec.json.encode(item) + b"\n"


def decoded(data: bytes) -> KeptItem | None:
    """The item that a `.json` holds; None when it holds none."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def decoded_slim(data: bytes) -> Slim | None:
    """What a listing takes of the item that a `.json` holds; None when it holds none."""
    try:
        return _slim_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def fitted(item: KeptItem, most_bytes: int) -> KeptItem:
    """The item with as many of its entries, the newest, as there is room for; `…n` says that n older ones are left out.

    Only a reply is cut, never what is kept.
    """
    if len(encoded(item)) <= most_bytes:
        return item
    room = most_bytes - len(encoded(msgspec.structs.replace(item, entries=[]))) - _LEFT_OUT_BYTES
    shown: list[str] = []
    for entry in reversed(item.entries):
        # Quotes, a comma, and what an escape may add.
        room -= len(msgspec.json.encode(entry)) + 1
        if room < 0:
            shown.append(f"…{len(item.entries) - len(shown)}")
            break
        shown.append(entry)
    return msgspec.structs.replace(item, entries=shown[::-1])
