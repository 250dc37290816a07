"""The first message of TLS: every cut and every division the same, no prefix taken for a whole, no stranger let pass."""

import itertools
import ssl
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egressd.wire.hello import LONGEST_BYTES, AnswerReader, Hello, HelloReader, Refused, alert, check
from tests.fakes import hello as forge

with warnings.catch_warnings():
    # On 3.11 it imports asyncore.
    warnings.simplefilter("ignore")
    from tlslite.messages import ClientHello
    from tlslite.utils.codec import Parser

NAME = "api.example.com"
PLAIN = forge.hello(NAME, alpn=("h2", "http/1.1"))
OLD = forge.hello(NAME, newest=ssl.TLSVersion.TLSv1_2)
NAMELESS = forge.hello(None)
ECH = forge.with_extension(PLAIN, *forge.GREASE_ECH)
HELLOS = (PLAIN, OLD, NAMELESS, ECH)
READ = Hello(NAME, ech=False, alpn=(b"h2", b"http/1.1"))

labels = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
names = st.lists(labels, min_size=2, max_size=4).map(".".join)
protocols = st.lists(st.sampled_from(["h2", "http/1.1", "x" * 255]), max_size=3, unique=True).map(tuple)


def _read(pieces: list[bytes], *, again: bool = False) -> tuple[Hello | str | None, int]:
    """What a reader says of some pieces (a hello, a reason, or that it wants more), and how many bytes it took."""
    reader = HelloReader(again=again)
    for piece in pieces:
        try:
            found = reader.feed(piece)
        except Refused as refused:
            return refused.reason, reader.taken_bytes
        if found is not None:
            return found, reader.taken_bytes
    return None, reader.taken_bytes


def _reason(data: bytes) -> Hello | str | None:
    whole = _read([data])[0]
    # A byte at a time it may be known sooner, never otherwise.
    assert _read([data[at : at + 1] for at in range(len(data))])[0] == whole
    return whole


def _cut(data: bytes, places: list[int]) -> list[bytes]:
    at = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(at)]


def _named(extension: bytes) -> bytes:
    return forge.with_extension(PLAIN, forge.SERVER_NAME, extension)


@given(names, protocols, st.sampled_from([ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]))
@settings(max_examples=40)
def test_it_reads_what_openssl_wrote_as_tlslite_reads_it(
    name: str, alpn: tuple[str, ...], newest: ssl.TLSVersion
) -> None:
    sent = forge.hello(name, alpn=alpn, newest=newest)
    found, taken_bytes = _read([sent])
    assert isinstance(found, Hello) and taken_bytes == len(sent)
    assert found == Hello(name, ech=False, alpn=tuple(one.encode() for one in alpn))
    for records in (sent, forge.with_extension(sent, *forge.GREASE_ECH)):
        theirs = ClientHello().parse(Parser(bytearray(forge.message_of(records)[1:])))
        ours = _read([records])[0]
        assert isinstance(ours, Hello)
        assert ours.name == bytes(theirs.server_name).decode()
        assert ours.ech == (theirs.getExtension(forge.ECH) is not None)
        offered = theirs.getExtension(forge.ALPN)
        assert ours.alpn == (() if offered is None else tuple(bytes(one) for one in offered.protocol_names))


@pytest.mark.parametrize("sent", HELLOS, ids=("new", "old", "nameless", "ech"))
def test_no_prefix_is_a_hello(sent: bytes) -> None:
    reader = HelloReader()
    for at in range(len(sent) - 1):
        assert reader.feed(sent[at : at + 1]) is None
    assert isinstance(reader.feed(sent[-1:]), Hello)


@given(st.sampled_from(HELLOS), st.lists(st.integers(0, 5000), max_size=8), st.lists(st.integers(1, 900), min_size=1))
@settings(max_examples=60)
def test_every_cut_and_every_division_is_the_same(sent: bytes, places: list[int], sizes: list[int]) -> None:
    whole = _read([sent])[0]
    records = forge.divided(forge.message_of(sent), itertools.cycle(sizes))
    assert isinstance(whole, Hello)
    assert _read(_cut(sent, places)) == (whole, len(sent))
    assert _read(_cut(records, places)) == (whole, len(records))


@given(st.sampled_from(HELLOS), st.binary(min_size=1, max_size=50), st.lists(st.integers(0, 5000), max_size=4))
def test_what_stands_behind_is_not_taken(sent: bytes, behind: bytes, places: list[int]) -> None:
    found, taken_bytes = _read(_cut(sent + behind, places))
    assert isinstance(found, Hello)
    assert taken_bytes == len(sent)


@given(st.sampled_from(HELLOS), st.data())
@settings(max_examples=300)
def test_a_damaged_hello_is_read_or_refused(sent: bytes, data: st.DataObject) -> None:
    bytes_ = bytearray(sent)
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(bytes_) - 1))
        match data.draw(st.sampled_from(["set", "cut", "put"])):
            case "set":
                bytes_[at] = data.draw(st.integers(0, 255))
            case "cut":
                del bytes_[at : at + data.draw(st.integers(1, 4))]
            case _:
                bytes_[at:at] = data.draw(st.binary(min_size=1, max_size=4))
    found = _reason(bytes(bytes_))
    assert found is None or isinstance(found, Hello | str)
    if isinstance(found, Hello) and found.name is not None:
        assert found.name.encode() in bytes(bytes_).lower()


@given(st.binary(max_size=200))
def test_noise_is_refused_or_wants_more(noise: bytes) -> None:
    found = _reason(noise)
    assert found is None or isinstance(found, str)
    if noise and noise[0] != 22:
        assert found == "not-tls"


@pytest.mark.parametrize(
    "sent",
    [
        b"CONNECT other.example.com:443 HTTP/1.1\r\n",
        b"SSH-2.0-x\r\n",
        # An SSL 2.0 hello, as SSL 3.0 clients once sent it.
        bytes.fromhex("802e0103010015000000100000050000040000ff"),
        b"\x16\x02\x00\x00\x10",
        b"\x15\x03\x01\x00\x02\x02\x28",
        forge.record(forge.handshake(b"", kind=2)),
        forge.record(b"\0", kind=23) + PLAIN,
        # A record of another kind amid the hello.
        forge.record(forge.message_of(PLAIN)[:9]) + b"\x14\x03\x03\x00\x01\x01",
    ],
    ids=itertools.count(),
)
def test_what_is_no_hello_of_tls(sent: bytes) -> None:
    assert _reason(sent) == "not-tls"


def _body(records: bytes) -> bytes:
    return forge.message_of(records)[4:]


@pytest.mark.parametrize(
    "sent",
    {
        "an empty record": b"\x16\x03\x01\x00\x00" + PLAIN,
        "a record over 16 KiB": b"\x16\x03\x01\x40\x01",
        "a second message in its record": forge.record(forge.message_of(PLAIN) * 2),
        "one byte of a second message": forge.record(forge.message_of(PLAIN) + b"\x01"),
        "an empty message": forge.record(forge.handshake(b"")),
        "a message of another version": forge.record(forge.handshake(b"\x02" + _body(PLAIN)[1:])),
        "a session id over 32 bytes": forge.record(forge.handshake(b"\3\3" + bytes(32) + b"\x21" + bytes(33 + 99))),
        "no cipher": forge.record(forge.handshake(b"\3\3" + bytes(32) + b"\0\0\0\1\0")),
        "half a cipher": forge.record(forge.handshake(b"\3\3" + bytes(32) + b"\0\0\3\x13\1\x13\1\0")),
        "no compression": forge.record(forge.handshake(b"\3\3" + bytes(32) + b"\0\0\2\x13\1\0")),
        "bytes behind the extensions": forge.record(forge.message_with(*forge.extensions_of(forge.message_of(PLAIN)), behind=b"\0")),
        "an extension that runs out": forge.record(forge.handshake(_body(OLD)[:-1])),
        "an extension twice": forge.changed(PLAIN, lambda found: [*found, found[0]]),
        "a name twice, the second in an extension of its own": forge.changed(PLAIN, lambda found: [*found, (0, forge.server_name((0, b"other.example.com")))]),
        "ECH twice": forge.changed(ECH, lambda found: [*found, forge.GREASE_ECH]),
        "two names": _named(forge.server_name((0, NAME.encode()), (0, b"other.example.com"))),
        "a name of another type": _named(forge.server_name((1, NAME.encode()))),
        "a name of another type beside it": _named(forge.server_name((0, NAME.encode()), (1, b"x"))),
        "an empty name": _named(forge.server_name((0, b""))),
        "an empty list of names": _named(b"\0\0"),
        "nothing for a name, as a server sends it": _named(b""),
        "bytes behind the list of names": _named(forge.server_name((0, NAME.encode())) + b"\0"),
        "a byte behind the name": _named(forge.server_name((0, NAME.encode()), behind=b"\0")),
        "a name that is not ASCII": _named(forge.server_name((0, "bücher.example".encode()))),
        "an empty protocol": forge.with_extension(PLAIN, forge.ALPN, b"\0\1\0"),
        "bytes behind the protocols": forge.with_extension(PLAIN, forge.ALPN, b"\0\3\2h2x"),
    }.items(),
    ids=lambda pair: pair[0],
)  # fmt: skip
def test_what_could_be_read_in_two_ways_is_refused(sent: tuple[str, bytes]) -> None:
    assert _reason(sent[1]) == "damaged"


def test_a_hello_without_extensions_names_nothing() -> None:
    before, _ = forge.extensions_of(forge.message_of(OLD))
    assert _reason(forge.record(forge.handshake(before))) == Hello(None, ech=False, alpn=())


def test_the_longest_hello() -> None:
    before, found = forge.extensions_of(forge.message_of(PLAIN))
    size = len(forge.divided(forge.message_with(before, [*found, (60_000, b"")]), itertools.cycle([1 << 14])))

    def padded(padding_bytes: int) -> bytes:
        message = forge.message_with(before, [*found, (60_000, bytes(padding_bytes))])
        return forge.divided(message, itertools.cycle([1 << 14]))

    # Three more heads of records than the short one has.
    longest = padded(LONGEST_BYTES - size - 15)
    assert len(longest) == LONGEST_BYTES
    assert _read([longest]) == (READ, LONGEST_BYTES)
    assert _read([padded(LONGEST_BYTES - size - 14)])[0] == "too-long"
    assert _reason(forge.record(b"\1\2\0\0")) == "too-long"
    # A byte a record is mostly heads, and counts with them.
    assert _read([forge.divided(forge.message_of(longest)[:10_000], itertools.repeat(1))])[0] is None
    assert _read([forge.divided(forge.message_of(longest)[:10_000], itertools.repeat(1)) * 2])[0] == "too-long"


@pytest.mark.parametrize("kind", [0xFE0D, 0xFE0A, 0xFFCE])
def test_a_hidden_name_is_seen_whatever_its_content(kind: int) -> None:
    for content in (b"", b"\0", forge.GREASE_ECH[1]):
        found = _reason(forge.with_extension(PLAIN, kind, content))
        assert isinstance(found, Hello)
        assert found.ech and found.name == NAME
        with pytest.raises(Refused) as refused:
            check(found, NAME)
        assert refused.value.reason == "ech"


@pytest.mark.parametrize(
    ("sent", "host", "reason"),
    [
        (PLAIN, NAME, None),
        (forge.hello("API.Example.COM"), NAME, None),
        (PLAIN, "other.example.com", "other-name"),
        (PLAIN, "example.com", "other-name"),
        (PLAIN, "api.example.com.org", "other-name"),
        (_named(forge.server_name((0, b"api.example.com."))), NAME, "other-name"),
        (_named(forge.server_name((0, b"api.example.com\0"))), NAME, "other-name"),
        (_named(forge.server_name((0, b" api.example.com"))), NAME, "other-name"),
        (NAMELESS, NAME, "no-name"),
        (ECH, NAME, "ech"),
    ],
    ids=itertools.count(),
)
def test_only_the_host_that_was_allowed(sent: bytes, host: str, reason: str | None) -> None:
    found = _read([sent])[0]
    assert isinstance(found, Hello)
    if reason is None:
        check(found, host)
        return
    with pytest.raises(Refused) as refused:
        check(found, host)
    assert refused.value.reason == reason
    assert refused.value.sentence.startswith("refused: ")


def test_before_a_second_hello_stands_what_a_client_may_send_there() -> None:
    before = b"\x14\x03\x03\x00\x01\x01" + forge.record(bytes(16_000), kind=23)
    for places in ([], [1], [5, 6, 7, 30]):
        assert _read(_cut(before + PLAIN + b"tail", places), again=True) == (READ, len(before + PLAIN))
    assert _read([before + forge.record(b"\0" * 40, kind=21)], again=True)[0] == "not-tls"
    assert _read([forge.record(bytes(16_000), kind=23) * 5], again=True)[0] == "too-long"
    amid = forge.divided(forge.message_of(PLAIN)[:40], itertools.repeat(40)) + before
    assert _read([amid], again=True)[0] == "damaged"


def _answer(data: bytes) -> bool | None:
    """What is said of an answer, cut or not."""
    whole = AnswerReader().feed(data)
    reader = AnswerReader()
    found: bool | None = None
    for at in range(len(data)):
        found = reader.feed(data[at : at + 1])
        if found is not None:
            break
    assert found == whole
    return whole


ASKS = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")


@pytest.mark.parametrize(
    ("answer", "asks"),
    [
        (forge.record(forge.handshake(b"\3\3" + ASKS + b"\0\x13\1\0", kind=2)), True),
        (forge.divided(forge.handshake(b"\3\3" + ASKS, kind=2), itertools.repeat(7)), True),
        (forge.record(forge.handshake(b"\3\3" + bytes(32) + b"\0", kind=2) + b"\x0b"), False),
        (forge.record(forge.handshake(b"\3\3" + ASKS, kind=11)), False),
        (b"\x15\x03\x03\x00\x02\x02\x28", False),
        (b"HTTP/1.1 400 Bad Request\r\n", False),
        (forge.record(forge.handshake(b"\3\3" + ASKS[:31] + b"\0", kind=2))[:-1], None),
        (b"", None),
    ],
    ids=itertools.count(),
)
def test_whether_a_server_asks_for_a_second_hello(answer: bytes, asks: bool | None) -> None:
    assert _answer(answer) is asks


def test_an_alert_is_one_that_openssl_understands() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    seen: list[str] = []
    for description in (49, 50, 112):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(incoming, outgoing, server_hostname=NAME)
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        incoming.write(alert(description))
        with pytest.raises(ssl.SSLError) as caught:
            client.do_handshake()
        seen.append(caught.value.reason)
    assert seen == ["TLSV1_ALERT_ACCESS_DENIED", "TLSV1_ALERT_DECODE_ERROR", "TLSV1_UNRECOGNIZED_NAME"]
