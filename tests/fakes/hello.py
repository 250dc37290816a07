"""Hellos of TLS for tests: real ones by OpenSSL, and what a careful forger makes of them.

Features: a first hello of OpenSSL for a name, with or without ALPN, TLS 1.2 or 1.3; the message of records; the
extensions of a message, changed and put back; a message divided over records of any sizes; a GREASE ECH like Chromium's.
"""

import ssl
import struct
from collections.abc import Callable, Iterator
from typing import Final

Extensions = list[tuple[int, bytes]]

HEAD_BYTES: Final = 5
SERVER_NAME: Final = 0
ALPN: Final = 16
ECH: Final = 0xFE0D
GREASE_ECH: Final = (ECH, bytes.fromhex("00 0001 0001 7f 0020") + bytes(range(32)) + b"\0\x90" + bytes(144))
"""outer, HKDF-SHA256 with AES-128-GCM, a config id, a key share, a payload: the form that Chromium sends always."""


def hello(
    name: str | None = "api.example.com",
    *,
    alpn: tuple[str, ...] = (),
    newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
) -> bytes:
    """The records of OpenSSL's first hello for a name; with None, for no name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.maximum_version = newest
    if alpn:
        context.set_alpn_protocols(alpn)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake without a server")


def message_of(records: bytes) -> bytes:
    """The handshake message that some records carry."""
    message, at = b"", 0
    while at < len(records):
        (length,) = struct.unpack_from("!H", records, at + 3)
        message += records[at + HEAD_BYTES : at + HEAD_BYTES + length]
        at += HEAD_BYTES + length
    return message


def record(payload: bytes, kind: int = 22) -> bytes:
    """One record."""
    return struct.pack("!BHH", kind, 0x0301, len(payload)) + payload


def divided(message: bytes, sizes: Iterator[int]) -> bytes:
    """A message over records of some sizes."""
    records, at = b"", 0
    while at < len(message):
        size = next(sizes)
        records += record(message[at : at + size])
        at += size
    return records


def extensions_of(message: bytes) -> tuple[bytes, Extensions]:
    """What stands before the extensions of a ClientHello (its 4-byte head left out), and the extensions."""
    at = 4 + 2 + 32
    at += 1 + message[at]
    at += 2 + int.from_bytes(message[at : at + 2])
    at += 1 + message[at]
    before, found = message[4:at], []
    at += 2
    while at < len(message):
        kind, length = struct.unpack_from("!HH", message, at)
        found.append((kind, message[at + 4 : at + 4 + length]))
        at += 4 + length
    return before, found


def message_with(before: bytes, extensions: Extensions, *, behind: bytes = b"") -> bytes:
    """A ClientHello of those parts."""
    inner = b"".join(struct.pack("!HH", kind, len(data)) + data for kind, data in extensions)
    return handshake(before + len(inner).to_bytes(2) + inner + behind)


def handshake(body: bytes, kind: int = 1) -> bytes:
    """A handshake message."""
    return bytes((kind,)) + len(body).to_bytes(3) + body


def changed(records: bytes, change: Callable[[Extensions], Extensions]) -> bytes:
    """A hello with other extensions, in one record."""
    before, extensions = extensions_of(message_of(records))
    return record(message_with(before, change(extensions)))


def with_extension(records: bytes, kind: int, data: bytes) -> bytes:
    """A hello with one extension more, or with another content of one that it has."""
    return changed(records, lambda found: [one for one in found if one[0] != kind] + [(kind, data)])


def server_name(*names: tuple[int, bytes], behind: bytes = b"") -> bytes:
    """The content of a server_name extension."""
    inner = b"".join(bytes((kind,)) + len(name).to_bytes(2) + name for kind, name in names) + behind
    return len(inner).to_bytes(2) + inner
