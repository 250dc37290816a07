"""docs/configuration.md: every setting of every daemon and of the owner's files, with its default."""

import importlib
import inspect
from types import ModuleType
from typing import Any

import msgspec

import boxmaker_model.__main__ as embedded
from brokerd.grants import grant
from bxctl import providers
from egressd import credentials
from proto import home, rules
from tests.gate.docs import text
from tests.gate.docs.roles import DAEMONS

INTRODUCTION = """\
Each daemon runs as `<daemon> serve --config PATH`. Every setting has a default, so that a file may be absent or empty.
What is not listed here is an error that names the file, the line and the key.

Settings of `config/` are read when a daemon starts: stop `bxctl up` and start it again. `grants.toml`, `grants/`, `policy/`
and `credentials.env` are read again when they change, and so are the files of `memory/`."""

ENVIRONMENT = {
    "BOXMAKER_HOME": "Where the home is, when no `--home` says so.",
    "BOXMAKER_LOG": "The level of the daemons' logs: `debug`, `info`, `warning` or `error`; default `info`.",
    "BOXMAKER_DEBUG": "`1`: an error of `bxctl` itself is shown with where it happened.",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "The collector that egressd sends traces to; with it the other `OTEL_…`, see traces.md.",
    providers.VARIABLE: "The model of new sessions for one start of the box, `<destination>/<model>`.",
}


def page() -> str:
    """The page."""
    parts = [text.GENERATED, "# Configuration", INTRODUCTION, "## Where things lie", text.doc(home), _paths()]
    parts += [
        "## Variables of the environment",
        text.table(("variable", "says"), ((f"`{name}`", says) for name, says in ENVIRONMENT.items())),
        f"## grants.toml\n\n{text.doc(rules)}",
        *_settings(rules.Rules),
        f"## grants/NAME.toml\n\n{text.doc(grant)}",
        *_settings(grant.GrantFile),
        f"## credentials.env\n\n{text.doc(credentials)}",
    ]
    for daemon in DAEMONS:
        if daemon != embedded.__package__:
            module = importlib.import_module(f"{daemon}.config")
            parts += [f"## config/{daemon}.toml\n\n{text.doc(module)}", *_settings(_root(module))]
    parts.append(f"## The embedded model\n\n{text.doc(embedded)}")
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
            holds = text.words(field.type, ids_named=False).removesuffix(" or null")
            rows.append((f"`{field.encode_name}`", holds, _shown(field), notes.get(field.name, "")))
    title = f"### [{table.rstrip('.')}]\n\n" if table else ""
    own = [f"{title}{text.doc(struct)}\n\n{text.table(('setting', 'holds', 'default', ''), rows) if rows else ''}"]
    return own + inner


def _shown(field: msgspec.inspect.Field) -> str:
    default: Any = text.default_of(field)
    if default is msgspec.NODEFAULT:
        return "must be given"
    return "" if default is None else f"`{msgspec.json.encode(default).decode()}`"
