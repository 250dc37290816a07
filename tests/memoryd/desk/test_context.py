"""Decision contexts over the real sockets: handed over by one, shown to the owner alone."""

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proto import sockets
from proto.faults import Fault
from proto.frame import MAX_FRAME
from proto.messages.memory import (
    KeepBegin,
    KeepBegun,
    KeepEnd,
    KeepPiece,
    KeepWhole,
    KeptErase,
    KeptErased,
    KeptItem,
    KeptList,
    KeptListReply,
    KeptShow,
    KeptShowReply,
    Reindex,
    Reindexed,
)
from proto.messages.wire import Ok
from proto.role.ask import ask
from tests.memoryd.daemon import Daemon, user
from tests.memoryd.kept.items import BODIES, CONTEXT, begin, parts

pytestmark = pytest.mark.measured


class Owner:
    """The two ends of it: egressd's and the owner's."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.context = sockets.socket("egress-memory").at(daemon.home)

    def hand_over(self, begun: KeepBegin, bodies: dict[str, bytes] = BODIES, piece_bytes: int = 1 << 19) -> None:
        handle = ask(self.context, begun, KeepBegun).handle
        for name, data in bodies.items():
            for at in range(0, len(data), piece_bytes):
                piece = KeepPiece(handle=handle, part=name, offset=at, data=data[at : at + piece_bytes])
                ask(self.context, piece, Ok)
        ask(self.context, KeepEnd(handle=handle, parts=parts(bodies), context=None), Ok)

    def hand_over_whole(self, begun: KeepBegin, bodies: dict[str, bytes] = BODIES) -> None:
        ask(self.context, KeepWhole(begun=begun, parts=parts(bodies), bodies=[*bodies.values()]), Ok)

    def list(self, **asked: Any) -> KeptListReply:
        reply: KeptListReply = ask(self.daemon.owner, KeptList(kept="contexts", **asked), KeptListReply)
        return reply

    def show(self, item: KeptItem, part: str) -> bytes:
        found, at = b"", 0
        while True:
            asked = KeptShow(kept="contexts", session=item.session, call=item.call, part=part, offset=at)
            reply: KeptShowReply = ask(self.daemon.owner, asked, KeptShowReply)
            assert reply.item == item
            found += reply.data
            if reply.next_offset is None:
                return found
            at = reply.next_offset


@pytest.fixture(scope="module")
def owner() -> Iterator[Owner]:
    """One memoryd for all of them: each test has a session of its own."""
    memory_disk = Path("/dev/shm")
    home = Path(tempfile.mkdtemp(prefix="bx", dir=memory_disk if memory_disk.is_dir() else None))
    started = Daemon(home).start()
    yield Owner(started)
    started.kill()
    shutil.rmtree(home)


def test_what_is_handed_over_is_listed_and_shown_byte_for_byte_also_after_a_start(owner: Owner) -> None:
    large = {"request": bytes(range(256)) * 8192, "response": b""}
    owner.hand_over(begin("c1", time="2026-09-24T21:02:03.25+00:00", days=36_500), large)
    owner.hand_over(begin("c2", time="2026-09-24T21:02:04Z", days=36_500), piece_bytes=5)
    owner.hand_over(begin("c3", days=0, session="chat-due"))
    for _ in range(2):
        reply = owner.list(session="chat-a")
        assert [one.call for one in reply.items] == ["c2", "c1"] and not reply.more
        assert reply.items[1].time == "2026-09-24T21:02:03Z"
        assert reply.items[0].context == CONTEXT
        assert {name: owner.show(reply.items[1], name) for name in large} == large
        assert {name: owner.show(reply.items[0], name) for name in BODIES} == BODIES
        owner.daemon.restart()
    # What is due goes soon after a start.
    until = time.monotonic() + 20
    while owner.list(session="chat-due").items[0].erased is None:
        assert time.monotonic() < until
        time.sleep(0.01)
    (due,) = owner.list(session="chat-due").items
    assert (due.erased, owner.show(due, "request")) == ("retention", b"")


def test_what_is_handed_over_twice_is_kept_once(owner: Owner) -> None:
    twice = begin("c1", session="chat-twice", days=36_500)
    owner.hand_over(twice)
    owner.hand_over(twice, {"request": b"another"})
    (found,) = owner.list(session="chat-twice").items
    assert owner.show(found, "request") == BODIES["request"]
    erased = ask(owner.daemon.owner, KeptErase(kept="contexts", session="chat-twice", call=None), KeptErased)
    assert erased.items == 1
    owner.hand_over(twice)
    (found,) = owner.list(session="chat-twice").items
    assert (found.erased, owner.show(found, "request")) == ("owner", b"")


def test_what_is_handed_over_in_one_step_is_the_same_item(owner: Owner) -> None:
    owner.hand_over(begin("c1", session="chat-pieces"))
    owner.hand_over_whole(begin("c1", session="chat-whole"))
    owner.hand_over_whole(begin("c1", session="chat-whole"), {"request": b"another"})
    (pieced,), (whole,) = owner.list(session="chat-pieces").items, owner.list(session="chat-whole").items
    assert msgspec.structs.replace(whole, session="chat-pieces") == pieced
    assert {name: owner.show(whole, name) for name in BODIES} == BODIES


def test_what_is_refused_in_one_step_leaves_nothing(owner: Owner) -> None:
    good, five = begin(session="chat-refused"), {f"part-{number}": b"x" for number in range(5)}
    refused = [
        KeepWhole(begun=good, parts=parts(BODIES), bodies=[b"", b""]),
        KeepWhole(begun=good, parts=parts(BODIES), bodies=[]),
        KeepWhole(begun=good, parts=parts(five), bodies=[*five.values()]),
        KeepWhole(begun=good, parts=parts(BODIES) * 2, bodies=[*BODIES.values()] * 2),
        KeepWhole(begun=begin(session="chat-refused", kept="sources"), parts=[], bodies=[]),
    ]
    # More of them than may be under way at once.
    for request in refused * 3:
        with pytest.raises(Fault) as raised:
            ask(owner.context, request, Ok)
        assert raised.value.code == "kept-refused"
    assert owner.list(session="chat-refused").items == []
    assert list((owner.daemon.home / "record" / ".unfinished").iterdir()) == []


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"call": "../../x"}, "letters, digits, - and _"),
        ({"call": "a.json"}, "letters, digits, - and _"),
        ({"time": "yesterday"}, "RFC 3339"),
        ({"time": "2026-09-24T21:02:03"}, "RFC 3339"),
        ({"time": "9999-12-31T00:00:00Z"}, "RFC 3339"),
        ({"days": -1}, "0 to 36,500 days"),
        ({"kept": "sources"}, "this socket takes what the egress observed"),
        ({"observed_by": "harness"}, "this socket takes what the egress observed"),
    ],
)
def test_what_cannot_be_kept_is_refused(owner: Owner, fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(Fault, match=sentence) as raised:
        ask(owner.context, begin(**fields), KeepBegun)
    assert raised.value.code == "kept-refused"


def test_what_is_said_of_an_item_is_bounded_and_there(owner: Owner) -> None:
    with pytest.raises(Fault, match="a decision context says what call it is of"):
        owner.hand_over(begin(session="chat-bounded", context=None))
    long = msgspec.structs.replace(CONTEXT, path="/" + "x" * 200_000)
    with pytest.raises(Fault, match="what is said of an item has at most 131,072 bytes"):
        owner.hand_over(begin(session="chat-bounded", context=long))
    assert owner.list(session="chat-bounded").items == []
    record = owner.daemon.home / "record"
    assert list((record / ".unfinished").iterdir()) == [] == list(record.rglob("chat-bounded"))


def test_nothing_can_be_read_where_it_is_handed_over_nor_by_others(owner: Owner) -> None:
    for path in (owner.context, owner.daemon.broker, owner.daemon.loop):
        with pytest.raises(Fault) as raised:
            ask(path, KeptList(kept="contexts"), KeptListReply)
        assert raised.value.code == "kind-unknown"


def test_a_context_names_the_entries_that_its_session_had_been_served(owner: Owner) -> None:
    owner.daemon.log("chat-b", user("papaya is ripe in May"))
    owner.daemon.updated("chat-b")
    owner.daemon.call({"action": "note", "text": "papaya for the owner"}, session="chat-c")
    served: dict[str, Any] = {"session": "chat-served", "days": 36_500}
    owner.hand_over(begin("c0", time="2026-01-01T00:00:00Z", **served))
    assert "papaya" in owner.daemon.recall("papaya", session="chat-served").text
    later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 60))
    owner.hand_over(begin("c1", time=later, **served))
    owner.hand_over(begin("c2", time=later, session="chat-z"))
    found = {one.call: one.entries for one in owner.list(session="chat-served").items}
    assert found["c0"] == owner.list(session="chat-z").items[0].entries == []
    note, record = sorted(found["c1"], reverse=True)
    assert record == "chat-b/0/0"
    assert note.startswith("notes/chat-c/") and note.endswith("Z/0")
    owner.daemon.restart()
    owner.hand_over(begin("c3", time=later, **served))
    assert owner.list(last=1, session="chat-served").items[0].entries == found["c1"]


def test_neither_recall_nor_reindex_finds_what_is_kept(owner: Owner) -> None:
    before = ask(owner.daemon.owner, Reindex(), Reindexed)
    owner.hand_over(begin(session="chat-jam", days=36_500), {"request": b"mirabelle jam recipe"})
    assert ask(owner.daemon.owner, Reindex(), Reindexed) == before
    assert owner.daemon.recall("mirabelle jam").text.startswith("(no matches")


def test_pages_and_frames(owner: Owner) -> None:
    about = msgspec.structs.replace(CONTEXT, path="/" + "x" * 100_000)
    for number in range(12):
        owner.hand_over(begin(f"c{number:02}", session="chat-pages", context=about, days=36_500))
    first = owner.list(last=1000, session="chat-pages")
    assert first.more and 1 <= len(first.items) < 12
    assert len(msgspec.msgpack.encode(first)) < MAX_FRAME
    last = first.items[-1]
    second = owner.list(last=1000, session="chat-pages", before=f"{last.time} {last.session} {last.call}")
    assert not second.more
    assert [one.call for one in [*first.items, *second.items]] == [f"c{number:02}" for number in range(11, -1, -1)]
