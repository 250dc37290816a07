"""Items in pieces: the same bytes from any cut, and nothing of what was not handed over whole."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.kept import Inbox, inbox
from proto.faults import Fault
from proto.role import durable
from tests.memoryd.kept.items import begin, part, parts


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(home: Path, clock: Clock) -> Inbox:
    found = Inbox(home, clock)
    found.open()
    return found


def _left(home: Path) -> list[Path]:
    return list((home / inbox.FOLDER).iterdir())


@settings(max_examples=40)
@given(
    st.binary(max_size=300),
    st.binary(max_size=300),
    st.lists(st.tuples(st.booleans(), st.integers(0, 60)), max_size=30),
)
def test_pieces_in_any_cut_give_the_same_bytes(
    opened: Inbox, request_body: bytes, response: bytes, cuts: list[tuple[bool, int]]
) -> None:
    handle = opened.begin(begin())
    bodies = {"request": request_body, "response": response}
    at = dict.fromkeys(bodies, 0)
    for first, count in [*cuts, (True, 300), (False, 300)]:
        name = "request" if first else "response"
        piece = bodies[name][at[name] : at[name] + count]
        opened.piece(handle, name, at[name], piece)
        at[name] += len(piece)
    whole = opened.take(handle, parts(bodies))
    assert {name: path.read_bytes() for name, path in whole.paths.items()} == bodies
    assert {path.stat().st_mode & 0o777 for path in whole.paths.values()} <= {0o600}
    whole.drop()


def test_a_piece_that_does_not_follow_is_refused_and_changes_nothing(opened: Inbox) -> None:
    handle = opened.begin(begin())
    opened.piece(handle, "request", 0, b"abc")
    for offset in (0, 2, 4):
        with pytest.raises(Fault, match=rf"the piece begins at {offset}, and 3 bytes of request are there") as raised:
            opened.piece(handle, "request", offset, b"x")
        assert raised.value.code == "kept-refused"
    opened.piece(handle, "request", 3, b"def")
    (path,) = opened.take(handle, [part("request", b"abcdef")]).paths.values()
    assert path.read_bytes() == b"abcdef"


@pytest.mark.parametrize(
    "told",
    [
        [part("request", b"abd")],
        [part("request", b"abcd")],
        [],
        [part("request", b"abc"), part("response", b"x")],
        [part("request", b"abc"), part("request", b"abc")],
        [part("response", b"abc")],
    ],
)
def test_parts_that_are_not_what_came_are_refused_and_dropped(opened: Inbox, home: Path, told: list[object]) -> None:
    handle = opened.begin(begin())
    opened.piece(handle, "request", 0, b"abc")
    with pytest.raises(Fault, match="the parts are not what was said of them"):
        opened.take(handle, told)  # type: ignore[arg-type]
    assert _left(home) == []
    with pytest.raises(Fault, match="begin again"):
        opened.piece(handle, "request", 3, b"d")


def test_an_empty_part_needs_no_piece(opened: Inbox) -> None:
    whole = opened.take(opened.begin(begin()), [part("response", b"")])
    assert whole.paths["response"].read_bytes() == b""


def test_a_part_is_never_the_json_and_parts_are_few(opened: Inbox) -> None:
    handle = opened.begin(begin())
    for number in range(inbox.MOST_PARTS):
        opened.piece(handle, f"part-{number}", 0, b"")
    for name in ("json", "more"):
        with pytest.raises(Fault, match="has at most 4 parts, and none is named json"):
            opened.piece(handle, name, 0, b"")
    with pytest.raises(Fault, match="none is named json"):
        opened.take(opened.begin(begin()), [part("json", b"")])


def test_an_item_is_bounded(opened: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "MOST_ITEM_BYTES", 10)
    handle = opened.begin(begin())
    opened.piece(handle, "request", 0, b"123456")
    with pytest.raises(Fault, match="an item has at most 10 bytes"):
        opened.piece(handle, "response", 0, b"12345")
    opened.piece(handle, "response", 0, b"1234")


def test_what_nobody_goes_on_with_is_dropped_after_a_minute(opened: Inbox, home: Path, clock: Clock) -> None:
    stale, live = opened.begin(begin("stale")), opened.begin(begin("live"))
    opened.piece(stale, "request", 0, b"abc")
    clock.now_s += 40
    opened.piece(live, "request", 0, b"abc")
    clock.now_s += 30
    assert [begun.call for begun in opened.drop_stale()] == ["stale"]
    with pytest.raises(Fault, match="begin again"):
        opened.piece(stale, "request", 3, b"d")
    opened.piece(live, "request", 3, b"d")
    assert len(_left(home)) == 1


def test_only_so_many_are_under_way(opened: Inbox, clock: Clock) -> None:
    for _ in range(inbox.MOST_UNFINISHED):
        opened.begin(begin())
    with pytest.raises(Fault) as raised:
        opened.begin(begin())
    assert raised.value.code == "busy"
    clock.now_s += 61
    opened.begin(begin())


def test_a_disk_that_refuses_drops_the_item(opened: Inbox, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = opened.begin(begin())
    opened.piece(handle, "request", 0, b"abc")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(durable, "write_whole", full)
        opened.piece(handle, "request", 3, b"def")
    assert _left(home) == []


def test_a_start_removes_what_was_left(opened: Inbox, home: Path) -> None:
    opened.piece(opened.begin(begin()), "request", 0, b"abc")
    assert len(_left(home)) == 1
    assert Inbox(home).open() == 1
    assert _left(home) == []


def test_a_disk_that_is_nearly_full_is_left_to_edits_and_decisions(
    opened: Inbox, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable, "LEAST_FREE_BYTES", 1 << 62)
    with pytest.raises(Fault) as caught:
        opened.begin(begin())
    assert caught.value.code == "memory-unavailable"
    assert "nearly full" in caught.value.message
    assert _left(home) == []
    monkeypatch.undo()
    opened.begin(begin())
