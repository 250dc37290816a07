"""docs/configuration.md: every setting of every daemon and of the owner's files, with its default."""

import importlib
import inspect
from types import ModuleType
from typing import Any

import msgspec

from proto import home, rules
from tests.gate.docs import text
from tests.gate.docs.roles import DAEMONS

INTRODUCTION = """\
Each daemon runs as `<daemon> serve --config PATH`. Every setting has a default, so that a file may be absent or empty.
What is not listed here is an error that names the file, the line and the key."""


def page() -> str:
    """The page."""
    parts = [
        text.GENERATED,
        "# Configuration",
        INTRODUCTION,
        "## Where things lie",
        text.doc(home),
        _paths(),
        f"## grants.toml\n\n{text.doc(rules)}",
        *_settings(rules.Rules),
    ]
    for daemon in DAEMONS:
        module = importlib.import_module(f"{daemon}.config")
        parts += [
            f"## {daemon.replace('_', '-')}.toml\n\n{text.doc(module)}",
            *_settings(_root(module)),
        ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _paths() -> str:
    rows = ((f"`{row.path}`", row.writer, ", ".join(row.readers), row.about) for row in home.PATHS)
    return text.table(("under the home", "written by", "read by", "holds"), rows)


def _root(module: ModuleType) -> type[msgspec.Struct]:
    """The Struct of a whole file: the one that no other of its module holds."""
    structs = [
        value
        for _, value in inspect.getmembers(module, inspect.isclass)
        if issubclass(value, msgspec.Struct) and value.__module__ == module.__name__
    ]
    held = {inner for struct in structs for field in text.fields(struct) for inner in text.structs_in(field.type)}
    (root,) = [struct for struct in structs if struct not in held]
    return root


def _settings(struct: type[msgspec.Struct], table: str = "") -> list[str]:
    """A section for each table of the file, the outer ones first."""
    notes = text.field_notes(struct)
    rows, inner = [], []
    for field in text.fields(struct):
        held = text.structs_in(field.type)
        if held:
            name = '."NAME"' if isinstance(field.type, msgspec.inspect.DictType) else ""
            inner += [part for one in held for part in _settings(one, f"{table}{field.encode_name}{name}.")]
        else:
            rows.append(
                (
                    f"`{field.encode_name}`",
                    text.words(field.type),
                    _shown(field),
                    notes.get(field.name, ""),
                )
            )
    title = f"### [{table.rstrip('.')}]\n\n" if table else ""
    own = [f"{title}{text.doc(struct)}\n\n{text.table(('setting', 'holds', 'default', ''), rows) if rows else ''}"]
    return own + inner


def _shown(field: msgspec.inspect.Field) -> str:
    default: Any = text.default_of(field)
    if default is msgspec.NODEFAULT:
        return "must be given"
    return "" if default is None else f"`{msgspec.json.encode(default).decode()}`"
