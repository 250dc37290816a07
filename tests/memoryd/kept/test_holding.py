"""Items on disk: whole or erased, listed or not there; a hand's changes and crashes included."""

import os
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.kept.item import decoded, encoded, fitted
from proto.faults import Fault
from proto.messages.memory import KeptItem
from proto.role import durable
from tests.memoryd.crash import crash_at
from tests.memoryd.kept.items import BODIES, Store, item

NOW = "2026-10-24T21:02:03Z"


def _full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.fixture
def store(home: Path) -> Store:
    return Store(home).taken_up()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 4), st.integers(1, 4)),
        st.tuples(st.just("erase"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("sweep"), st.integers(1, 4), st.just(0)),
        st.tuples(st.just("start"), st.just(0), st.just(0)),
    ),
    max_size=14,
)


@settings(max_examples=40)
@given(STEPS)
def test_whatever_is_put_erased_and_swept_the_files_say_the_same(home: Path, steps: list[tuple[str, int, int]]) -> None:
    home = Path(tempfile.mkdtemp(dir=home))
    store = Store(home).taken_up()
    model: dict[str, tuple[int, str | None]] = {}
    for act, number, day in steps:
        call = f"c{number}"
        if act == "put":
            made = item(call, drop_after=f"2026-10-{day:02}T00:00:00Z")
            assert store.hand_over(made) is (call not in model)
            model.setdefault(call, (day, None))
        elif act == "erase" and call in model:
            assert store.holding.erase("contexts", "chat-a", call, "owner") is (model[call][1] is None)
            model[call] = (model[call][0], model[call][1] or "owner")
        elif act == "sweep":
            due = [name for name, (goes, erased) in model.items() if goes <= number and erased is None]
            assert store.holding.sweep(f"2026-10-{number:02}T00:00:00Z") == len(due)
            model.update({name: (model[name][0], "retention") for name in due})
        elif act == "start":
            store = Store(home).taken_up()
        store.check()
        assert {one.call: one.erased for one in store.listed()} == {name: erased for name, (_, erased) in model.items()}


def test_modes_are_the_owners_alone(store: Store) -> None:
    store.hand_over(item())
    for path in store.record.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert store.files() == [f"dom-me/.contexts/chat-a/c1.{name}" for name in ("json", "request", "response")]


def test_what_outlives_the_sweep_is_the_call_and_its_entries(store: Store) -> None:
    store.hand_over(item())
    assert store.holding.sweep("2026-10-24T21:02:02Z") == 0
    assert store.holding.sweep(NOW) == 1
    (found,) = Store(store.record.parent).taken_up().listed()
    assert found == item(erased="retention")
    assert store.holding.read(found, "request", 0, 100) == b""


def test_erasing_a_session(store: Store) -> None:
    for call in ("c1", "c2"):
        store.hand_over(item(call))
    store.hand_over(item("c1", session="chat-b"))
    store.holding.erase("contexts", "chat-a", "c1", "owner")
    assert store.holding.erase_all("contexts", "chat-a", "owner") == 1
    assert [(one.session, one.erased) for one in store.listed()] == [
        ("chat-b", None), ("chat-a", "owner"), ("chat-a", "owner"),
    ]  # fmt: skip
    for session, call in (("chat-c", "c1"), ("chat-a", "c9"), ("chat-a", "../c1"), ("chat-a", "")):
        with pytest.raises(Fault) as raised:
            store.holding.erase("contexts", session, call, "owner")
        assert raised.value.code == "kept-unknown"
    with pytest.raises(Fault, match="nothing of that kind and session"):
        store.holding.erase_all("contexts", "chat-c", "owner")


def test_reading_in_pieces(store: Store) -> None:
    body = bytes(range(256)) * 5
    store.hand_over(item(bodies={"request": body}), {"request": body})
    found = store.holding.find("contexts", "chat-a", "c1")
    read = b"".join(store.holding.read(found, "request", at, 100) for at in range(0, len(body), 100))
    assert read == body
    assert store.holding.read(found, "request", 10**12, 100) == b""
    with pytest.raises(Fault, match="no part of that name"):
        store.holding.read(found, "response", 0, 100)


def test_a_body_that_is_not_what_was_kept_is_damage(store: Store) -> None:
    store.hand_over(item())
    path = store.record / "dom-me/.contexts/chat-a/c1.request"
    path.write_bytes(b"x")
    found = store.holding.find("contexts", "chat-a", "c1")
    with pytest.raises(Fault, match="is damaged: it has not the size that was kept"):
        store.holding.read(found, "request", 0, 100)
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(Fault, match="cannot be read"):
        store.holding.read(found, "request", 0, 100)


def test_what_a_hand_put_there_is_left_alone_and_not_listed(store: Store) -> None:
    store.hand_over(item())
    folder = store.record / "dom-me/.contexts/chat-a"
    (folder / "notes.txt~").write_text("mine")
    (folder / "c2.json").write_bytes(encoded(item("c1")))
    (folder / "c3.json").write_text("{")
    (folder / "c3.request").write_text("body of something unreadable")
    (store.record / "dom-me/.contexts/No Session").mkdir()
    (store.record / "other").mkdir()
    (store.record / "dom-you").symlink_to(store.record / "dom-me")
    before = store.files()
    again = Store(store.record.parent).taken_up()
    assert [one.call for one in again.listed()] == ["c1"]
    assert again.files() == before
    with pytest.raises(Fault, match=r"c3\.json cannot be read"):
        again.holding.find("contexts", "chat-a", "c3")


def test_a_disk_that_refuses_a_sweep_is_asked_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for call in ("c1", "c2"):
        store.hand_over(item(call))

    with monkeypatch.context() as patch:
        patch.setattr(durable, "replace", _full)
        assert store.holding.sweep(NOW) == 0
    store.check()
    assert store.holding.sweep(NOW) == 2


def test_a_disk_that_refuses_an_item_keeps_nothing_of_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(durable, "replace", _full)
        store.hand_over(item())
    assert store.files() == []
    assert store.hand_over(item())
    store.check()


def test_bodies_that_the_disk_would_not_let_go_go_when_it_is_asked_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for call in ("c1", "c2"):
        store.hand_over(item(call))
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", _full)
        with pytest.raises(OSError, match="No space"):
            store.holding.erase("contexts", "chat-a", "c1", "owner")
        assert store.holding.sweep(NOW) == 0
    assert store.holding.erase("contexts", "chat-a", "c1", "owner") is False
    assert store.holding.sweep(NOW) == 0
    store.check()
    assert [one.erased for one in store.listed()] == ["retention", "owner"]


def test_one_that_cannot_be_read_keeps_no_other_from_being_erased(store: Store) -> None:
    for call in ("c1", "c2", "c3"):
        store.hand_over(item(call))
    (store.record / "dom-me/.contexts/chat-a/c2.json").write_text("{")
    with pytest.raises(Fault, match=r"c2\.json cannot be read"):
        store.holding.erase_all("contexts", "chat-a", "owner")
    assert [one.erased for one in store.listed()] == ["owner", "owner"]


def test_a_sweep_that_is_stopped_goes_on_later(store: Store) -> None:
    for call in ("c1", "c2", "c3"):
        store.hand_over(item(call))
    breaths = iter([None, None])
    with pytest.raises(StopIteration):
        store.holding.sweep(NOW, lambda: next(breaths))
    assert sum(one.erased is None for one in store.listed()) == 1
    assert store.holding.sweep(NOW) == 1


def test_the_newest_are_listed_though_one_cannot_be_read(store: Store) -> None:
    for number in range(4):
        store.hand_over(item(f"c{number}", time=f"2026-09-24T21:02:0{number}Z"))
    (store.record / "dom-me/.contexts/chat-a/c2.json").write_text("{")
    assert [one.call for one in store.holding.newest("contexts", None, 2, None)] == ["c3", "c1"]


def _put(store: Store) -> None:
    store.hand_over(item("act"))


def _erase(store: Store) -> None:
    store.holding.erase("contexts", "chat-a", "c1", "owner")


def _sweep(store: Store) -> None:
    store.holding.sweep(NOW)


@pytest.mark.parametrize("act", [_put, _erase, _sweep])
def test_a_crash_at_any_step(home: Path, act: object) -> None:
    assert callable(act)

    def prepared(name: str) -> Store:
        store = Store(home / name).taken_up()
        store.hand_over(item("c1"))
        store.hand_over(item("c2", session="chat-b"))
        return store

    def summary(store: Store) -> list[tuple[str, str | None]]:
        store.check()
        return [(one.call, one.erased) for one in store.listed()]

    whole = prepared("whole")
    before = summary(whole)
    with crash_at(None) as steps:
        act(whole)
    done = summary(whole)
    assert steps.count >= 4 and before != done
    seen = set()
    for last in range(1, steps.count + 1):
        store = prepared(f"at-{last}")
        with crash_at(last):
            act(store)
        crashed = Store(store.record.parent).taken_up()
        found = summary(crashed)
        # Of two items that are swept, one may be.
        assert found in (before, done) or act is _sweep, (last, steps.names[last - 1], found)
        act(crashed)
        assert summary(crashed) == done
        seen.add(tuple(found))
    assert {tuple(before), tuple(done)} <= seen


def test_a_crash_while_finishing_a_crash(home: Path) -> None:
    store = Store(home).taken_up()
    store.hand_over(item("c1"))
    folder = store.record / "dom-me/.contexts/chat-a"
    (folder / "c1.json").write_bytes(encoded(item("c1", erased="owner")))
    for name in ("c2.request", "c2.response", ".c2.json.0123456789ab.tmp"):
        (folder / name).write_bytes(b"x")
    with crash_at(None) as steps:
        pass
    for last in range(1, 8):
        with crash_at(last) as steps:
            Store(home).taken_up()
        if steps.count < last:
            break
    again = Store(home).taken_up()
    again.check()
    assert again.files() == ["dom-me/.contexts/chat-a/c1.json"]


@pytest.mark.measured
@given(st.lists(st.text('ab/0-é"\\', max_size=40), max_size=60), st.integers(0, 4_000))
def test_what_a_reply_shows_of_an_item_fits(entries: list[str], room: int) -> None:
    made = item(entries=entries)
    shown = fitted(made, room)
    least = len(encoded(item(entries=[]))) + 24
    assert len(encoded(shown)) <= max(room, least)
    if shown.entries != entries:
        kept = shown.entries[1:]
        assert shown.entries[0] == f"…{len(entries) - len(kept)}"
        assert kept == entries[len(entries) - len(kept) :]


def test_an_item_is_read_as_it_was_written() -> None:
    made: KeptItem = item()
    assert decoded(encoded(made)) == made
    assert decoded(b"[" * 100_000) is None
    assert decoded(b"\xff") is None
    assert os.linesep not in encoded(made).decode().rstrip()
    assert BODIES
