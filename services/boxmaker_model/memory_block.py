"""The memory that a request carries: the block in its system prompt, and what this conversation has changed since.

The block is M5a section 4. It is frozen for the session, so an entry that was added a moment ago stands only in the
calls of the conversation; both are read, and the last word counts.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from boxmaker_model.request import Message, ToolCall

IdentityFile = Literal["memory", "user"]

_HEADING: Final = re.compile(r"^# (memory|user)\.md \([\d,]+ of [\d,]+ characters\)$", re.MULTILINE)
_SEPARATOR: Final = re.compile(r"^[ \t]*§[ \t]*$", re.MULTILINE)
_WORD: Final = re.compile(r"[^\W_]+")
_EMPTY: Final = "(empty)"
_UPDATED: Final = re.compile(r"^(?:memory|user)\.md updated\b")

EMPTY_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        """
        a about am an and any are as at be been but by can could d did do does for from had has have he her his how i if
        in into is it its ll m me my no not of on or our over please re s she so t tell that the their them then there
        these they this to us ve was we were what when where which who whom whose why will with would you your
        """,
    )
)
"""English words that say nothing about what a question or an entry is about."""


class Entry(msgspec.Struct, frozen=True):
    """One entry of an identity file, exactly as the file has it."""

    file: IdentityFile
    text: str


def entries_of(system: str, messages: Sequence[Message]) -> list[Entry]:
    """What memory.md and user.md hold, as far as this request can know."""
    entries = _block(system)
    results = {m.tool_call_id: m.text for m in messages if m.role == "tool"}
    for call in (call for m in messages for call in m.tool_calls or []):
        if call.function.name == "memory" and _UPDATED.match(results.get(call.id, "")):
            entries = _changed(entries, arguments_of(call))
    return entries


def _block(system: str) -> list[Entry]:
    """The entries of the block: the last heading of each file counts, since soul.md before them is the owner's text."""
    headings = {match[1]: match for match in _HEADING.finditer(system)}
    ends = sorted(match.start() for match in headings.values())
    entries: list[Entry] = []
    for file in ("memory", "user"):
        if not (heading := headings.get(file)):
            continue
        end = next((start for start in ends if start > heading.start()), len(system))
        texts = [text.strip() for text in _SEPARATOR.split(system[heading.end() : end])]
        entries += [Entry(file, text) for text in texts if text and text != _EMPTY]
    return entries


def _changed(entries: list[Entry], arguments: dict[str, Any]) -> list[Entry]:
    """The entries after an add, a replace or a remove that memoryd confirmed."""
    file, old, text = (arguments.get(name) for name in ("file", "old", "text"))
    kept = [e for e in entries if not (e.file == file and e.text == old)]
    if arguments.get("action") in {"add", "replace"} and file in {"memory", "user"} and isinstance(text, str):
        kept.append(Entry("user" if file == "user" else "memory", text.strip()))
    return kept


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call, or none when they are no map: they come from the conversation, not from here."""
    try:
        arguments = json.loads(call.function.arguments)
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def words_of(text: str) -> frozenset[str]:
    """The words that a text is about, in one case and without a plural's s."""
    words = (word.casefold() for word in _WORD.findall(text.replace("’", "'")))
    return frozenset(_singular(word) for word in words if word not in EMPTY_WORDS)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def share(asked: str, text: str) -> float:
    """How much of what is asked stands in a text: 2 for the same text, 1 for every word, 0 for none."""
    if asked.casefold().strip() == text.casefold().strip():
        return 2.0
    wanted = words_of(asked)
    if not wanted or asked.casefold() in text.casefold():
        return 1.0 if asked.strip() and asked.casefold() in text.casefold() else 0.0
    return len(wanted & words_of(text)) / len(wanted)


def matching(asked: str, entries: Iterable[Entry], at_least: float) -> list[Entry]:
    """The entries that share enough with what is asked, best first; of equals, the one that says least else."""
    scored = [(share(asked, entry.text), entry) for entry in entries]
    found = [(score, entry) for score, entry in scored if score >= at_least and score > 0]
    return [entry for _, entry in sorted(found, key=lambda pair: (-pair[0], len(words_of(pair[1].text))))]
