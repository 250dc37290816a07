"""The tools of the model: their names, who runs them, and the shapes of their arguments (M5a section 5).

Both brokerd and memoryd check shapes with `parse_arguments`; what the content may be is memoryd's check.
"""

import math
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

_DEEPEST: Final = 32


class Tool(NamedTuple):
    """A tool: the daemon that runs it, and whether it stands in every session's tools array."""

    runtime: Literal["memoryd", "egressd", "launcherd"]
    core: bool


TOOLS: Final[dict[str, Tool]] = {
    "recall": Tool("memoryd", core=True),
    "memory": Tool("memoryd", core=True),
    "http_fetch": Tool("egressd", core=False),
    "read_file": Tool("launcherd", core=False),
    "list_files": Tool("launcherd", core=False),
    "run_command": Tool("launcherd", core=False),
}
"""The tools that brokerd decides on. clock, find_tool and call_tool are loopd's own."""


class Shown(NamedTuple):
    """A tool as a model is shown it: what it does, and the JSON Schema of its arguments."""

    about: str
    parameters: dict[str, Any]


def schema(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    """The JSON Schema of arguments with these properties and no others."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


_TEXT: Final = {"type": "string"}
_FLAG: Final = {"type": "boolean"}
_ENTRY: Final = {
    "type": "object",
    "properties": {"old": _TEXT, "keep": _FLAG, "text": _TEXT, "move": _FLAG, "drop": _FLAG},
    "additionalProperties": False,
}

SHOWN: Final[dict[str, Shown]] = {
    "recall": Shown(
        "Search earlier sessions and notes. Each hit says where it is from, and whether it can be trusted.",
        schema(
            {
                "query": {"type": "string", "minLength": 1, "maxLength": 500},
                "k": {"type": "integer", "minimum": 1, "maximum": 10, "default": 5},
            },
            "query",
        ),
    ),
    "memory": Shown(
        "Change what later sessions know. add: file, text. replace: file, old, text. remove: file, old. note: text. "
        "consolidate: file, entries; every entry of the file once as old with one of keep, text (a rewrite), move (to "
        "notes) or drop, and new entries as text alone. old is the whole entry, exactly.",
        schema(
            {
                "action": {"type": "string", "enum": ["add", "replace", "remove", "note", "consolidate"]},
                "file": {"type": "string", "enum": ["memory", "user"]},
                "text": _TEXT,
                "old": _TEXT,
                "entries": {"type": "array", "items": _ENTRY},
            },
            "action",
        ),
    ),
}
"""The tools that loopd shows its own models, and egressd those that come over MCP, in the same words."""


class RecallArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`recall`: a query of 1 to 500 characters, and how many hits, 1 to 10."""

    query: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
    k: Annotated[int, msgspec.Meta(ge=1, le=10)] = 5


IdentityFile = Literal["memory", "user"]


class _Action(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="action"):
    pass


class Add(_Action, frozen=True, tag="add"):
    """A new entry."""

    file: IdentityFile
    text: str


class Replace(_Action, frozen=True, tag="replace"):
    """An entry, named by its full text, becomes another."""

    file: IdentityFile
    old: str
    text: str


class Remove(_Action, frozen=True, tag="remove"):
    """An entry, named by its full text, goes to notes.md as dropped."""

    file: IdentityFile
    old: str


class Note(_Action, frozen=True, tag="note"):
    """Something seen or told, 1 to 1,000 characters, appended to notes.md."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]


class Item(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a consolidate: an old entry with exactly one of keep, text, move, drop; or a new text alone."""

    old: str | None = None
    keep: bool = False
    text: str | None = None
    move: bool = False
    drop: bool = False

    def __post_init__(self) -> None:
        """Refuse an item that says nothing, or more than one thing."""
        chosen = sum((self.keep, self.text is not None, self.move, self.drop))
        if self.old is None and (self.text is None or chosen != 1):
            raise ValueError("an item without old has text alone")
        if chosen != 1:
            raise ValueError("an item has exactly one of keep, text, move and drop")


class Consolidate(_Action, frozen=True, tag="consolidate"):
    """The whole file anew: every entry named exactly once, and new ones."""

    file: IdentityFile
    entries: list[Item]


MemoryArguments = Add | Replace | Remove | Note | Consolidate


class FetchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`http_fetch`: one URL of at most 2,048 characters."""

    url: Annotated[str, msgspec.Meta(min_length=1, max_length=2048)]


class PathArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`read_file` and `list_files`: one path."""

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]


class CommandArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`run_command`: one command line."""

    command: Annotated[str, msgspec.Meta(min_length=1, max_length=16384)]


ToolArguments = RecallArguments | MemoryArguments | FetchArguments | PathArguments | CommandArguments

_SHAPES: Final[dict[str, Any]] = {
    "recall": RecallArguments,
    "memory": MemoryArguments,
    "http_fetch": FetchArguments,
    "read_file": PathArguments,
    "list_files": PathArguments,
    "run_command": CommandArguments,
}


def parse_arguments(tool: str, arguments: dict[str, Any]) -> ToolArguments:
    """The arguments of a call in their shape.

    Raises:
        KeyError: there is no tool of that name.
        ValueError: the arguments have not its shape; the message says where, and quotes nothing long.

    """
    shape = _SHAPES[tool]
    try:
        parsed: ToolArguments = msgspec.convert(arguments, shape)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)[:300]) from None
    return parsed


def check_arguments(value: Any, depth: int = 0) -> None:
    """Refuse what JSON has not, and what is nested deeper than 32.

    Raises:
        ValueError: with what was found.

    """
    if depth > _DEEPEST:
        raise ValueError(f"arguments are nested deeper than {_DEEPEST}")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError("a key of arguments is not a text")  # noqa: TRY004  (msgspec turns ValueError into its own)
            check_arguments(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            check_arguments(item, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("arguments hold a number that JSON has not")
    elif not (value is None or isinstance(value, str | int | float | bool)):
        raise ValueError("arguments hold a value that JSON has not")
