"""What to do with a request: a tool call, a fixed sentence, or the model's words. A pure function of the request."""

import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from boxmaker_model import answers, intents, memory_block
from boxmaker_model.memory_block import Entry
from boxmaker_model.prompt import Prompt, prompt_of
from boxmaker_model.request import ChatRequest, Message, ToolCall

_MOST_HITS: Final = 10
"""As many as recall gives: some of them only repeat the question."""
_FORGET_SHARE: Final = 0.5
_TOOL_OF: Final = {
    "remember": "memory", "note": "memory", "forget": "memory", "recall": "recall", "fetch": "call_tool"
}  # fmt: skip


class Call(msgspec.Struct, frozen=True):
    """Call a tool; the arguments as a JSON text."""

    tool: str
    arguments: str


class Say(msgspec.Struct, frozen=True):
    """Say exactly this."""

    text: str


class Words(msgspec.Struct, frozen=True):
    """Let the model speak, then say the suffix."""

    prompt: Prompt
    suffix: str


Plan = Call | Say | Words


def plan(request: ChatRequest) -> Plan:
    """What to do about the last message: the owner's is read, a tool's answer is quoted, anything else is talked to."""
    entries = memory_block.entries_of(request.system, request.messages)
    last = request.messages[-1]
    if last.role == "tool":
        return _after_tools(request.messages, entries)
    intent = intents.read(last.text) if last.role == "user" else None
    if found := _answer(intent, request.tool_names, entries):
        return found
    prompt = prompt_of(request, entries)
    return Words(prompt, answers.from_memory(prompt.facts) if prompt.facts else "")


def _answer(intent: intents.Intent | None, tools: frozenset[str], entries: Sequence[Entry]) -> Call | Say | None:
    """The call for an intent, if the client offers its tool."""
    match intent:
        case intents.Recall(query) if "recall" in tools:
            return _call("recall", query=query, k=_MOST_HITS)
        case intents.Remember(file, text) if "memory" in tools:
            return _call("memory", action="add", file=file, text=text)
        case intents.Note(text) if "memory" in tools:
            return _call("memory", action="note", text=text)
        case intents.Forget(about) if "memory" in tools:
            return _forget(about, entries)
        case intents.Ask(verb) if _TOOL_OF[verb] in tools:
            return Say(answers.what(verb))
        case intents.Fetch(url) if "call_tool" in tools:
            return _call("call_tool", tool="http_fetch", arguments={"url": url})
        case _:
            return None


def _forget(about: str, entries: Sequence[Entry]) -> Call | Say:
    """The removal of the one entry that fits best; a tie is asked about, since a wrong removal loses something."""
    found = memory_block.matching(about, entries, _FORGET_SHARE)
    if not found:
        return Say(answers.nothing_to_forget(about))
    best = found[0]
    equal = [e for e in found if _fit(about, e) == _fit(about, best)]
    if len(equal) > 1:
        return Say(answers.which_to_forget(equal))
    return _call("memory", action="remove", file=best.file, old=best.text)


def _fit(about: str, entry: Entry) -> tuple[float, int]:
    return memory_block.share(about, entry.text), len(memory_block.words_of(entry.text))


def _after_tools(messages: Sequence[Message], entries: Sequence[Entry]) -> Say:
    """What the answers at the end of the conversation say, each to its call."""
    calls = {call.id: call for m in messages for call in m.tool_calls or []}
    trailing: list[Message] = []
    for message in reversed(messages):
        if message.role != "tool":
            break
        trailing.insert(0, message)
    said = []
    for message in trailing:
        call = calls.get(message.tool_call_id or "") or _unknown(message)
        said.append(answers.after(call, message.text, entries))
    return Say("\n\n".join(said))


def _unknown(message: Message) -> ToolCall:
    return msgspec.convert({"id": message.tool_call_id or "", "function": {"name": "(unknown)"}}, ToolCall)


def _call(tool: str, /, **arguments: Any) -> Call:
    return Call(tool, json.dumps(arguments, ensure_ascii=False, separators=(",", ":")))
