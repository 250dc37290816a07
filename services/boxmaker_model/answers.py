"""The fixed sentences after a tool answered: each quotes the answer, and what it quotes stays data."""

import itertools
import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from boxmaker_model import intents
from boxmaker_model.claims import NOTHING_DONE
from boxmaker_model.memory_block import Entry, arguments_of, matching, words_of
from boxmaker_model.request import ToolCall

NO_WORDS: Final = "(The embedded model has no words for this.)"
"""In place of an empty answer."""

_WHAT: Final = {
    "remember": "Remember what? Say “remember …” with the words to keep.",
    "note": "Note what? Say “note …” with the words to keep.",
    "recall": "Recall what? Say “what did I say about …?”.",
    "forget": "Forget what? Say “forget …” with words of the entry.",
    "fetch": "Fetch what? Say “fetch” and a URL.",
}
_FOUND: Final = "Here is what I found:"
_DONE: Final = re.compile(r"^(?:(?:memory|user)\.md updated|noted|saved as a note)\b")
_NO_HITS: Final = re.compile(r"^\(no matches for ")
_SOURCE: Final = re.compile(
    r"^\[\d+\] (?P<tag>identity|memory|memory-tainted) · (?P<where>.+) · (?P<class>public|private|secret)$"
)
_CALL: Final = re.compile(r"^(?P<tool>\w+) \{.*")
_FIXED: Final = re.compile(
    r"Here is what I found:|I found (?:nothing about|no entry of) |I could not search: |Done: |That was not done: "
    r"|More than one entry matches; |The fetch of |The tool \w+ answered:|\(The embedded model has no words"
    r"|.* Nothing was done\.$"
)
_QUOTED_ENTRIES: Final = re.compile(r"\n\n\((?:memory|user)\.md: “.*", re.DOTALL)
_MOST_SHOWN: Final = 5
_PAGE_CHARS: Final = 1500
_RESULT_CHARS: Final = 1500


class Hit(msgspec.Struct, frozen=True):
    """A hit of a recall: where it is from, in memoryd's words, and its snippet."""

    where: str
    snippet: str
    tainted: bool


def after(call: ToolCall, result: str, entries: Sequence[Entry]) -> str:
    """What to say to the owner when a call of this conversation was answered."""
    arguments = arguments_of(call)
    match call.function.name:
        case "recall":
            return _recalled(str(arguments.get("query", "")), result, entries)
        case "memory":
            return f"Done: {result}" if _DONE.match(result) else f"That was not done: {result}"
        case "call_tool":
            return _fetched(_inner_url(arguments), result)
        case name:
            return f"The tool {name} answered:\n\n{_quote(result, _RESULT_CHARS)}"


def what(verb: str) -> str:
    """A command came without its object."""
    return f"{_WHAT[verb]} Nothing was done."


def nothing_to_forget(about: str) -> str:
    """No entry fits what is to be forgotten."""
    return f"I found no entry of memory.md or user.md that matches “{about}”."


def which_to_forget(entries: Sequence[Entry]) -> str:
    """More than one entry fits equally well; removing needs one."""
    listed = "\n".join(f"- {entry.text}" for entry in entries)
    return f"More than one entry matches; say “forget” and the words of one:\n{listed}"


def from_memory(facts: Sequence[Entry]) -> str:
    """The entries that the model was given, quoted after its words."""
    return "\n\n" + "\n".join(f"({fact.file}.md: “{fact.text}”)" for fact in facts)


def is_fixed(text: str) -> bool:
    """Whether an answer of this conversation was one of the fixed sentences, or ends with one."""
    return bool(_FIXED.match(text)) or NOTHING_DONE in text


def without_entries(text: str) -> str:
    """An answer in the model's words, without the entries quoted after it."""
    return _QUOTED_ENTRIES.sub("", text)


def hits_of(result: str) -> list[Hit]:
    """The hits in a recall's answer: two lines each, by memoryd's contract; no snippet can look like a source line."""
    lines = result.split("\n")
    hits = []
    for line, snippet in itertools.pairwise(lines):
        if source := _SOURCE.match(line):
            hits.append(Hit(source["where"], snippet, tainted=source["tag"] == "memory-tainted"))
    return hits


def _recalled(query: str, result: str, entries: Sequence[Entry]) -> str:
    facts = [f"- “{entry.text}” ({entry.file}.md)" for entry in matching(query, entries, at_least=0.5)]
    hits = hits_of(result)
    if not hits and not _NO_HITS.match(result):
        return "\n".join([f"I could not search: {result}", *facts])
    shown = _telling(hits)[:_MOST_SHOWN]
    lines = facts + [_line(hit) for hit in shown]
    if not lines:
        return f"I found nothing about “{query}”."
    left = len(hits) - len(shown)
    return "\n".join([_FOUND, *lines, *([_left_out(left)] if left else [])])


def _line(hit: Hit) -> str:
    return f"- “{hit.snippet}” ({hit.where}{', untrusted' if hit.tainted else ''})"


def _left_out(count: int) -> str:
    return f"({count} more {'hit says' if count == 1 else 'hits say'} the same, or only ask.)"


def _telling(hits: Sequence[Hit]) -> list[Hit]:
    """The hits that tell something: not the question asked before, its call, an answer to it, or a shown text again.

    When nothing else matched, every hit is shown.
    """
    telling: list[Hit] = []
    for hit in hits:
        called = hit.where.endswith("the assistant called") and _CALL.match(hit.snippet)
        asked = isinstance(intents.read(hit.snippet), intents.Recall)
        answered = hit.where.endswith("the assistant said") and hit.snippet.startswith(_FOUND)
        if not (called or asked or answered) and not _repeats(hit, telling):
            telling.append(hit)
    return telling or list(hits)


def _repeats(hit: Hit, shown: Sequence[Hit]) -> bool:
    words = words_of(hit.snippet)
    return any(words <= words_of(other.snippet) and hit.tainted == other.tainted for other in shown)


def _inner_url(arguments: dict[str, Any]) -> str:
    inner = arguments.get("arguments")
    return str(inner.get("url", "")) if isinstance(inner, dict) else ""


def _fetched(url: str, result: str) -> str:
    return f"The fetch of {url} answered:\n\n{_quote(result, _PAGE_CHARS)}"


def _quote(text: str, most_chars: int) -> str:
    """A text as a quotation, each line marked, cut with the number of characters that are missing."""
    shown = text[:most_chars].rstrip()
    lines = "\n".join(f"> {line}".rstrip() for line in shown.splitlines())
    missing = len(text) - len(shown)
    return f"{lines}\n\n(… {missing:,} more characters)" if missing else lines
