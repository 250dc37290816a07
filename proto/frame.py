"""A frame: a 4-byte big-endian length, then that many bytes of MessagePack: a map with the key `kind`.

Sans-IO: bytes in, messages or a `Fault` out. `role.serve`, `role.call` and `role.ask` move the bytes.
"""

import struct
from collections.abc import Iterable
from typing import Any, Final

import msgpack
import msgspec

from proto.escape import clip
from proto.faults import Fault
from proto.forms import in_words

MAX_FRAME: Final = 1 << 20
"""The longest body of a frame, in bytes."""
HEADER_BYTES: Final = 4
_LENGTH: Final = struct.Struct(">I")
_encoder: Final = msgspec.msgpack.Encoder()


def pack(message: msgspec.Struct) -> bytes:
    """The frame of a message.

    Raises:
        Fault: `frame-too-large`; nothing of it may be sent.

    """
    data = body(message)
    if len(data) > MAX_FRAME:
        raise Fault("frame-too-large")
    return _LENGTH.pack(len(data)) + data


def body(message: msgspec.Struct) -> bytes:
    """The body of a message's frame, of any length: all of it where a datagram is the frame."""
    return _encoder.encode(message)


def body_length(header: bytes) -> int:
    """The length of the body that a header of 4 bytes announces, 1 to `MAX_FRAME`.

    Raises:
        Fault: `frame-empty` or `frame-too-large`.

    """
    length: int = _LENGTH.unpack(header)[0]
    if length == 0:
        raise Fault("frame-empty")
    if length > MAX_FRAME:
        raise Fault("frame-too-large")
    return length


class Decoder:
    """Decodes the bodies of one socket: exactly the kinds that it is given, and nothing else."""

    def __init__(self, kinds: Iterable[type[msgspec.Struct]]) -> None:
        self._by_kind = {str(kind.__struct_config__.tag): kind for kind in kinds}

    def decode(self, body: bytes) -> Any:
        """The message in a body.

        Raises:
            Fault: `kind-unknown`; `frame-undecodable`: not MessagePack, a duplicate key, trailing bytes, a wrong shape.

        """
        fields = _unpack_map(body)
        kind = fields.get("kind")
        if not isinstance(kind, str):
            raise Fault("frame-undecodable", "the frame has no kind")
        found = self._by_kind.get(kind)
        if found is None:
            raise Fault("kind-unknown", f"this socket does not answer the kind {clip(kind, 60)}")
        try:
            return msgspec.convert(fields, found)
        except (msgspec.ValidationError, RecursionError) as error:
            raise Fault("frame-undecodable", f"{kind}: {clip(in_words(str(error)), 300)}") from None


def _unpack_map(body: bytes) -> dict[Any, Any]:
    try:
        value = msgpack.unpackb(body, object_pairs_hook=_map_once, ext_hook=_no_extension, strict_map_key=False)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise Fault("frame-undecodable", f"the frame is not MessagePack: {clip(str(error), 100)}") from None
    if not isinstance(value, dict):
        raise Fault("frame-undecodable", "the frame is not a map")
    return value


def _map_once(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _no_extension(code: int, data: bytes) -> Any:
    raise ValueError(f"an extension type {code} of {len(data)} bytes")
