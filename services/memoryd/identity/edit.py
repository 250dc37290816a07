"""What an edit makes of the entries of a file, pure: the rules of add, replace, remove and consolidate.

Entries are named by their full text, so an edit that was made against an old view of the file fails safely.

Source: M5a section 5, "memory"; contract, "The files of M5a".
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from memoryd.identity.entries import FileKind, is_separator, of, size, trim
from memoryd.refusal import Refusal
from proto.tools import Add, Consolidate, Item, Remove, Replace

IdentityEdit = Add | Replace | Remove | Consolidate


class Outcome(msgspec.Struct, frozen=True):
    """The entries after an edit, and those that go to notes.md, in order."""

    entries: list[str]
    to_notes: list[tuple[Literal["moved", "dropped"], str]]


def written(edit: IdentityEdit) -> list[str]:
    """The texts that an edit would write, trimmed: what must pass the check."""
    match edit:
        case Add() | Replace():
            return [trim(edit.text)]
        case Remove():
            return []
        case Consolidate():
            return [trim(item.text) for item in edit.entries if item.text is not None]


def outcome(edit: IdentityEdit, entries: Sequence[str], kind: FileKind) -> Outcome:
    """What the edit makes of a file's entries.

    Raises:
        Refusal: the edit breaks a rule.

    """
    for text in written(edit):
        check_form(text)
    match edit:
        case Add():
            made = Outcome([*entries, _new(trim(edit.text), entries, kind)], [])
        case Replace():
            at = _place(edit.old, entries, kind)
            others = [*entries[:at], *entries[at + 1 :]]
            text = _new(trim(edit.text), others, kind)
            made = Outcome([*entries[:at], text, *entries[at + 1 :]], [])
        case Remove():
            # However large the file is, an entry may go.
            at = _place(edit.old, entries, kind)
            return Outcome([*entries[:at], *entries[at + 1 :]], [("dropped", edit.old)])
        case Consolidate():
            made = _consolidated(edit.entries, entries, kind)
    check_limit(made.entries, kind)
    return made


def check_form(text: str) -> None:
    """Refuse a text that cannot be an entry at all.

    Raises:
        Refusal: it is empty once trimmed, or has a line that parts entries.

    """
    if not text:
        raise Refusal("refused: the entry is empty")
    if any(map(is_separator, text.split("\n"))):
        raise Refusal("refused: an entry may not contain a line holding only §")


def check_limit(entries: Sequence[str], kind: FileKind) -> None:
    """Refuse entries that do not fit their file.

    Raises:
        Refusal: the fixed sentence of the limit.

    """
    if (chars := size(entries)) > kind.limit_chars:
        raise Refusal(f"{kind.name} would be {of(chars, kind.limit_chars)}; use consolidate to move entries to notes")


def _new(text: str, others: Sequence[str], kind: FileKind) -> str:
    if text in others:
        raise Refusal(f"{kind.name} already holds this entry")
    return text


def _place(old: str, entries: Sequence[str], kind: FileKind) -> int:
    found = [at for at, entry in enumerate(entries) if entry == old]
    if not found:
        raise Refusal(f"no entry of {kind.name} is exactly this old text; read the file as it is now")
    if len(found) > 1:
        raise Refusal(f"{kind.name} holds this entry more than once; use consolidate to drop one")
    return found[0]


def _consolidated(items: Sequence[Item], entries: Sequence[str], kind: FileKind) -> Outcome:
    if Counter(item.old for item in items if item.old is not None) != Counter(entries):
        raise Refusal(f"consolidate must name every entry of {kind.name} exactly once")
    kept: list[str] = []
    new: set[str] = set()
    to_notes: list[tuple[Literal["moved", "dropped"], str]] = []
    for item in items:
        if item.text is not None:
            kept.append(trim(item.text))
            new.add(kept[-1])
        elif item.keep and item.old is not None:
            kept.append(item.old)
        elif item.old is not None:
            to_notes.append(("moved" if item.move else "dropped", item.old))
    # Two that a hand made alike may stay; nothing new may be like another.
    if any(Counter(kept)[text] > 1 for text in new):
        raise Refusal(f"{kind.name} already holds this entry")
    return Outcome(kept, to_notes)
