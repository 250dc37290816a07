"""Writes `bxctl/starter/<daemon>.toml` from the daemons' own settings: `python -m tests.bxctl.starters`.

`bxctl` may import no daemon, so the files are kept, and a test says when they are out of date.
"""

import importlib
import json
from pathlib import Path
from typing import Any

import msgspec

from bxctl import starter
from tests.gate.docs import text
from tests.gate.docs.configuration import _root

FOLDER = Path(starter.__file__).parent


def written(daemon: str) -> str:
    """The starter file of a daemon."""
    module = importlib.import_module(f"{daemon}.config")
    head = text.doc(module).split("\n\n")[0].replace("\n", " ")
    lines = [f"# {head}", "# Each setting with its default: take the # away to change one.", ""]
    return "\n".join(lines + _tables(_root(module), "")).rstrip() + "\n"


def _tables(struct: type[msgspec.Struct], table: str) -> list[str]:
    notes = text.field_notes(struct)
    lines: list[str] = []
    if table:
        lines += [*_comment(text.doc(struct)), f"[{table}]"]
    inner: list[str] = []
    for field in text.fields(struct):
        held = text.structs_in(field.type)
        if held and not isinstance(field.type, msgspec.inspect.DictType):
            for one in held:
                inner += _tables(one, f"{table}.{field.encode_name}".lstrip("."))
        else:
            lines += [*_comment(notes.get(field.name, "")), f"# {field.encode_name} = {_value(field)}"]
    return [*lines, "", *inner] if lines else inner


def _comment(note: str) -> list[str]:
    return [f"# {line}" for line in note.split("\n") if line.strip()]


def _value(field: msgspec.inspect.Field) -> str:
    default: Any = text.default_of(field)
    return '"…"' if default is None else json.dumps(msgspec.to_builtins(default), ensure_ascii=False)


if __name__ == "__main__":
    for name in starter.DAEMONS:
        (FOLDER / f"{name}.toml").write_text(written(name), encoding="utf-8")
