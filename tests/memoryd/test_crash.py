"""A crash at any step of a write leaves either no edit, or a listed one by its true author; and the next start is whole."""

import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memoryd.acts import review, undo
from memoryd.config import Config, Memory
from memoryd.identity import entries as text_of
from memoryd.identity import notes as notes_of
from memoryd.refusal import Refusal
from tests.memoryd.box import UNTRUSTED, Box, add, consolidate, note, remove, replace
from tests.memoryd.crash import crash_at

REVIEW = Config(memory=Memory(review=True))
Act = Callable[[Box], object]


def _hand_then_add(box: Box) -> None:
    box.by_hand("memory.md", "one\n§\nby hand\n")
    box.call(add("after the hand"), call="act")


def _hand_on_notes(box: Box) -> None:
    box.by_hand("notes.md", box.text("notes.md").replace("noted early", "changed early"))
    box.call(note("after the hand"), call="act")


def _undo_latest(box: Box) -> None:
    undo.undo(box.holdings, box.lines()[-1]["id"])


def _accept(box: Box) -> None:
    review.accept(box.holdings, box.holdings.shelf.review.waiting()[0].id)


def _reject(box: Box) -> None:
    review.reject(box.holdings, box.holdings.shelf.review.waiting()[0].id)


ACTS: dict[str, tuple[Config, Act]] = {
    "add": (Config(), lambda box: box.call(add("four"), call="act")),
    "replace": (Config(), lambda box: box.call(replace("two", "zwei"), call="act")),
    "remove": (Config(), lambda box: box.call(remove("two"), call="act")),
    "note": (Config(), lambda box: box.call(note("seen"), UNTRUSTED, call="act")),
    "an add that becomes a note": (Config(), lambda box: box.call(add("heard"), UNTRUSTED, call="act")),
    "consolidate": (
        Config(),
        lambda box: box.call(
            consolidate({"old": "two", "move": True}, {"old": "one", "text": "eins"}, {"old": "three", "drop": True}),
            call="act",
        ),
    ),
    "a hand, then add": (Config(), _hand_then_add),
    "a hand on notes, then note": (Config(), _hand_on_notes),
    "undo": (Config(), _undo_latest),
    "stage": (REVIEW, lambda box: box.call(add("four"), call="act")),
    "accept": (REVIEW, _accept),
    "reject": (REVIEW, _reject),
}


@pytest.fixture
def homes() -> Iterator[Callable[[Path | None], Path]]:
    """New homes, empty or a copy of another."""
    memory_disk = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="bx", dir=memory_disk if memory_disk.is_dir() else None))

    def new(like: Path | None) -> Path:
        path = Path(tempfile.mkdtemp(dir=folder))
        if like is not None:
            shutil.copytree(like, path, dirs_exist_ok=True)
        return path

    yield new
    shutil.rmtree(folder)


def _prepared(home: Path, settings: Config) -> Path:
    """A home with some history, and one waiting write if review is to be on."""
    box = Box(home)
    for text in ("one", "two", "three"):
        box.call(add(text))
    box.call(note("noted early"))
    box.call(add("me", "user"), session="chat-b")
    if settings.memory.review:
        box = box.reopen(settings)
        box.call(add("staged"), call="staged")
    box.close()
    return home


@pytest.mark.parametrize("name", ACTS)
def test_a_crash_at_any_step(name: str, homes: Callable[[Path | None], Path]) -> None:
    settings, act = ACTS[name]
    base = _prepared(homes(None), settings)
    whole = Box(homes(base), settings)
    with crash_at(None) as steps:
        act(whole)
    whole.close()
    done = _summary(whole)
    undone = _summary(Box(base, settings))
    assert steps.count >= 2
    for last in range(1, steps.count + 1):
        box = Box(homes(base), settings)
        with crash_at(last):
            act(box)
        box = box.reopen()
        _check(box)
        found = _summary(box)
        # The hand's part is there in any case once it was saved; the act's part is there or not.
        assert found in (done, undone) or "hand" in name, (last, steps.names[last - 1], found)
        _repeat(act, box)
        _check(box)
        if "hand" not in name:
            assert _summary(box) == done, (last, steps.names[last - 1])
        box.close()


def test_a_crash_while_settling_a_crash(homes: Callable[[Path | None], Path]) -> None:
    settings, act = ACTS["consolidate"]
    base = _prepared(homes(None), settings)
    with crash_at(None) as steps:
        act(Box(homes(base)))
    for last in range(1, steps.count + 1, 2):
        crashed = Box(homes(base))
        with crash_at(last):
            act(crashed)
        crashed.close()
        with crash_at(None) as settling:
            Box(homes(crashed.home)).close()
        for again in range(1, settling.count + 1, 2):
            home = homes(crashed.home)
            with crash_at(again):
                Box(home)
            box = Box(home)
            _check(box)
            _repeat(act, box)
            _check(box)
            box.close()


def _repeat(act: Act, box: Box) -> None:
    """Do it again as a caller would that got no answer; what was done already is refused or answered again."""
    if any(line["call"] == "act" for line in box.lines()) or box.holdings.answers.find("chat-a", "act"):
        return
    if act is _undo_latest and box.lines()[-1]["action"] == "undo":
        return
    if act in {_accept, _reject} and not box.holdings.shelf.review.waiting():
        return
    try:
        act(box)
    except Refusal as refusal:
        raise AssertionError(refusal.sentence) from None


def _summary(box: Box) -> Any:
    """What a home holds, without times and hashes."""
    lines = [(line["action"], line["went_to"], line["after"], line["by"]) for line in box.lines()]
    waiting = [pending.call for pending in box.holdings.shelf.review.waiting()]
    notes = [note.text for note in notes_of.parse(box.text("notes.md"))]
    return lines, waiting, notes, box.text("memory.md"), box.text("user.md")


def _check(box: Box) -> None:
    """The laws that hold after every start."""
    lines = box.lines()
    assert [state.first_bad for state in box.holdings.shelf.journal.verify()] in ([], [None])
    assert len({line["id"] for line in lines}) == len(lines)
    calls = Counter((line["session"], line["call"]) for line in lines if line["by"] == "agent")
    assert max(calls.values(), default=1) == 1
    held: dict[str, list[str]] = defaultdict(list)
    noted: Counter[str] = Counter()
    for line in lines:
        if line["went_to"] == "notes.md":
            noted.update(line["after"])
            noted.subtract(line["before"])
        elif line["went_to"]:
            assert line["before"] == held[line["went_to"]]
            held[line["went_to"]] = line["after"]
        if line["by"] == "owner":
            assert (
                line["action"] in {"undo", "reject"} or "by hand" in line["after"] or "changed early" in line["after"]
            )
    for name in ("memory.md", "user.md"):
        assert text_of.parse(box.text(name)) == held[name]
    found = notes_of.parse(box.text("notes.md"))
    assert Counter(note.text for note in found if note.header and note.header.how == "noted") == +noted
    assert tuple(found) == tuple(box.holdings.shelf.notebook.entries)
    seen = box.home / "state" / "memoryd" / "notes.seen"
    assert seen.read_bytes() == box.path("notes.md").read_bytes()
    assert [path.name for path in box.path(".").iterdir() if path.name.startswith(".")] == []
