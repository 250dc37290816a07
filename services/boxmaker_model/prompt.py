"""What the model itself is given to read: far less than the client sent.

A client's system prompt of 3,000 tokens costs this model 15 to 30 seconds on two cores, and it understands none of
it. So a question that shares a word with an entry of memory.md or user.md is asked together with those entries alone,
in the form that this model answers best, without chance (docs/embedded-model.md has the measurement). Anything else is
the last few texts of the conversation behind one short sentence. Turns with a tool call or a fixed sentence are left
out: the model imitates "Done: …" when nothing was done.
"""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from boxmaker_model import answers, intents
from boxmaker_model.memory_block import Entry, matching, words_of
from boxmaker_model.request import ChatRequest, Message

MOST_TOKENS: Final = 512
"""The most that one answer may have, whatever the client asks for."""

_DEFAULT_TOKENS: Final = 200
_FACT_TOKENS: Final = 80
_MOST_FACTS: Final = 3
_MOST_TEXTS: Final = 7
_TEXT_CHARS: Final = 600
_CHAT: Final = "You are a helpful AI assistant. Answer in one or two short sentences."
_FACTS: Final = "You are a helpful assistant. Answer the question with the facts."
_QUESTION: Final = re.compile(
    r"^(?:what|when|where|which|who|whom|whose|why|how|is|are|was|were|do|does|did|can|will|has|have)\b|\?\s*$",
    re.IGNORECASE,
)
_ABOUT_OWNER: Final = re.compile(r"\b(?:i|me|my|mine|myself)\b", re.IGNORECASE)


class Prompt(msgspec.Struct, frozen=True):
    """Messages as (role, text), and how to sample. `facts` are the entries in it."""

    messages: tuple[tuple[str, str], ...]
    max_tokens: int
    temperature: float
    top_p: float
    seed: int | None
    stop: tuple[str, ...]
    facts: tuple[Entry, ...] = ()


def prompt_of(request: ChatRequest, entries: Sequence[Entry]) -> Prompt:
    """The prompt for the model's own words."""
    asked = request.messages[-1].text.strip()
    wanted = request.max_completion_tokens or request.max_tokens or _DEFAULT_TOKENS
    stop = (request.stop,) if isinstance(request.stop, str) else tuple(request.stop or ())
    if facts := facts_for(asked, entries):
        text = f"Facts: {' '.join(_sentence(fact.text) for fact in facts)}\nQuestion: {asked}"
        messages, temperature, wanted, stop = (
            _messages(_FACTS, [("user", text)]),
            0.0,
            min(wanted, _FACT_TOKENS),
            ("\n",),
        )
    else:
        messages = _messages(_CHAT, _conversation(request))
        temperature = 0.2 if request.temperature is None else request.temperature
    return Prompt(
        messages=messages,
        max_tokens=min(wanted, MOST_TOKENS),
        temperature=temperature,
        top_p=request.top_p or 0.9,
        seed=None if request.seed is None else request.seed % 2**32,
        stop=tuple(text for text in stop if text),
        facts=facts,
    )


def facts_for(asked: str, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The entries that a question is about; user.md's when it is about nothing but the owner ("who am I?")."""
    if not _QUESTION.search(asked):
        return ()
    if words_of(asked):
        return tuple(matching(asked, entries, at_least=0.0)[:_MOST_FACTS])
    if _ABOUT_OWNER.search(asked):
        return tuple(entry for entry in entries if entry.file == "user")[:_MOST_FACTS]
    return ()


def _conversation(request: ChatRequest) -> list[tuple[str, str]]:
    """The last texts of user and assistant; all but the last one cut short."""
    texts: list[tuple[str, str]] = []
    for turn in _turns(request.messages):
        if turn[-1] is request.messages[-1] or not _acted(turn):
            texts += [(m.role, text) for m in turn if (text := answers.without_entries(m.text).strip())]
    last = texts[-_MOST_TEXTS:]
    return [(role, text[:_TEXT_CHARS]) for role, text in last[:-1]] + last[-1:]


def _turns(messages: Sequence[Message]) -> list[list[Message]]:
    """The conversation without the system's words, cut before each text of the owner."""
    turns: list[list[Message]] = [[]]
    for message in messages:
        if message.role == "user":
            turns.append([])
        if message.role in {"user", "assistant", "tool"}:
            turns[-1].append(message)
    return [turn for turn in turns if turn]


def _acted(turn: Sequence[Message]) -> bool:
    """Whether a turn was the grammar's: a command, a call, a tool's answer or a fixed sentence."""
    return any(
        m.role == "tool"
        or m.tool_calls
        or (m.role == "user" and intents.read(m.text))
        or (m.role == "assistant" and answers.is_fixed(m.text.strip()))
        for m in turn
    )


def _messages(system: str, texts: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """No text of a conversation may open or close a turn of the template."""
    return (("system", system), *((role, text.replace("<|", "< |")) for role, text in texts))


def _sentence(text: str) -> str:
    folded = " ".join(text.split())
    ended = folded if folded.endswith((".", "!", "?")) else f"{folded}."
    return ended[:1].upper() + ended[1:]
