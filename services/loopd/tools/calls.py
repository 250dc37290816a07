"""A tool call as a model gave it, and what it becomes: a call for the log, and what to do with it.

Nothing that a model puts into a call is a crash. What cannot be run is refused with a sentence that tells the model
what to mend; the log keeps a call that any provider accepts when it is sent back.
"""

import json
import math
import re
from collections.abc import Set as AbstractSet
from typing import Any, Final, NamedTuple

from loopd.session.records import Call
from proto.canon import compact
from proto.escape import clip
from proto.tools import TOOLS, check_arguments

OWN: Final = frozenset({"clock", "find_tool"})
"""What loopd serves itself."""
CALL_TOOL: Final = "call_tool"
_ID: Final = re.compile(r"[\x21-\x7e]{1,128}\Z")
_NOT_OF_A_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_NAME: Final = 64
_LEAST_INT, _MOST_INT = -(1 << 63), (1 << 64) - 1
_QUOTED_CHARS: Final = 120


class RawCall(NamedTuple):
    """A call as the model streamed it: nothing is checked; `arguments` is JSON text, or what should have been."""

    id: str
    name: str
    arguments: str


class Wanted(NamedTuple):
    """What is to be done for a call: run `tool` with `arguments`, unless `refused` already says why not."""

    call: Call
    tool: str
    arguments: dict[str, Any]
    refused: str | None

    @property
    def key(self) -> str:
        """The same for two calls that ask for the same."""
        return f"{self.tool} {json.dumps(self.arguments, sort_keys=True)} {self.refused or ''}"


def read_all(raw: tuple[RawCall, ...], used: AbstractSet[str], number: int) -> list[Wanted]:
    """What the calls of one message want; `used` are the session's ids, `number` is the number of the record."""
    taken = set(used)
    wanted = []
    for index, one in enumerate(raw):
        own = _own_id(one.id, taken, f"call_{number}_{index}")
        taken.add(own)
        wanted.append(_read(one, own))
    return wanted


def _own_id(untrusted_id: str, taken: AbstractSet[str], made: str) -> str:
    """The model's id where it can be used: a call is known by it, so that it stands once in a session."""
    if _ID.match(untrusted_id) and untrusted_id not in taken:
        return untrusted_id
    while made in taken:
        made += "_"
    return made


def _read(raw: RawCall, id: str) -> Wanted:
    name = _NOT_OF_A_NAME.sub("_", raw.name)[:_LONGEST_NAME] or "unnamed"
    try:
        arguments = parse(raw.arguments)
    except ValueError as error:
        problem = f"refused: the arguments of {name} {error}; they were: {clip(raw.arguments, _QUOTED_CHARS)}"
        return Wanted(Call(id, name, {}), name, {}, problem)
    call = Call(id, name, arguments)
    if name == CALL_TOOL:
        return _unwrap(call)
    return Wanted(call, name, arguments, _unknown(name))


def _unwrap(call: Call) -> Wanted:
    """The call inside a call_tool."""
    tool, arguments = call.arguments.get("tool"), call.arguments.get("arguments", {})
    if isinstance(arguments, str):
        # Many models write the inner map as a text.
        try:
            arguments = parse(arguments)
        except ValueError as error:
            return Wanted(call, CALL_TOOL, call.arguments, f"refused: the arguments inside call_tool {error}")
    if not isinstance(tool, str) or not isinstance(arguments, dict) or not set(call.arguments) <= {"tool", "arguments"}:
        problem = 'refused: call_tool takes {"tool": a name, "arguments": a map}'
        return Wanted(call, CALL_TOOL, call.arguments, problem)
    return Wanted(call, tool, arguments, _unknown(tool))


def _unknown(tool: str) -> str | None:
    if tool in OWN or tool in TOOLS:
        return None
    return (
        f"refused: there is no tool of the name {clip(tool, _QUOTED_CHARS)}; find_tool shows the tools that there are"
    )


def parse(text: str) -> dict[str, Any]:
    """The arguments in a JSON text; none at all are an empty map.

    Raises:
        ValueError: it is not JSON, not a map, or holds a number or a depth that cannot be passed on; the message ends
            the sentence "the arguments of X …".

    """
    if not text.strip():
        return {}
    try:
        # strict=False: a raw line feed inside a text is what many models write, and can mean one thing only.
        value = json.loads(text, strict=False, parse_constant=_no_constant, parse_float=_float, parse_int=_int)
    except json.JSONDecodeError as error:
        raise ValueError(f"are not JSON ({error.msg} at character {error.pos + 1})") from None
    except RecursionError:
        raise ValueError("are nested too deep") from None
    if not isinstance(value, dict):
        raise ValueError("are JSON, but not a map")  # noqa: TRY004  (one kind of error says how the model was wrong)
    try:
        check_arguments(value)
        compact(value).encode()
    except UnicodeEncodeError:
        raise ValueError("hold half of a surrogate pair") from None
    except ValueError as error:
        raise ValueError(f"cannot be used: {error}") from None
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"hold {name}, which JSON has not")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("hold a number that is too large")
    return value


def _int(text: str) -> int:
    # The length first: reading an integer of a million digits takes long, or is refused with another sentence.
    value = int(text) if len(text) <= 20 else None
    if value is None or not _LEAST_INT <= value <= _MOST_INT:
        raise ValueError("hold an integer beyond 64 bits")
    return value
