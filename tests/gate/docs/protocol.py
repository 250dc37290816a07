"""docs/protocol.md: every socket, what may be asked on it, and every kind with its fields."""

from typing import get_args

import msgspec

from proto import faults, messages, reasons, sockets, tools
from proto.messages import wire
from tests.gate.docs import text


def page() -> str:
    """The page."""
    parts = [
        text.GENERATED,
        "# The protocol",
        text.doc(messages),
        _frame(),
        "## Sockets",
        text.doc(sockets),
        _sockets(),
    ]
    parts += [_socket(row) for row in sockets.SOCKETS if row.requests]
    parts += ["## Kinds", "What each field holds; ids have the forms listed under [Ids](#ids)."]
    parts += [_kind(kind, struct) for kind, struct in sorted(messages.KINDS.items())]
    parts += ["## Parts of kinds", *(_part(struct) for struct in _parts())]
    parts += ["## Tools of the model", text.doc(tools), *(_part(struct) for struct in _arguments())]
    parts += [
        "## Ids",
        text.table(("id", "form"), ((name, f"`{form}`") for name, form in text.id_forms().items())),
    ]
    parts += [
        "## Codes",
        text.doc(faults),
        _codes(),
        "## Reasons of a decision",
        text.doc(reasons),
        _reasons(),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _frame() -> str:
    from proto import frame

    return text.doc(frame)


def _sockets() -> str:
    rows = ((f"`{row.path}`", f"{row.client} → {row.server}", row.protocol, row.about) for row in sockets.SOCKETS)
    return text.table(("socket", "client → server", "protocol", "for"), rows)


def _socket(row: sockets.Socket) -> str:
    kinds = ", ".join(_link(_tag(request)) for request in row.answers)
    return f"**`{row.path}`** ({row.client} → {row.server}): {kinds}"


def _tag(struct: type[msgspec.Struct]) -> str:
    return str(struct.__struct_config__.tag)


def _link(kind: str) -> str:
    return f"[{kind}](#{kind})"


def _kind(kind: str, struct: type[msgspec.Struct]) -> str:
    asked = [f"`{row.path}`" for row in sockets.SOCKETS if struct in row.answers]
    if struct is wire.Ping:
        asked = ["every framed socket"]
    where = f"\n\nAsked on {', '.join(asked)}." if asked else ""
    return f"### {kind}\n\n{text.doc(struct)}{where}\n\n{_fields(struct)}"


def _part(struct: type[msgspec.Struct]) -> str:
    return f"### {struct.__name__}\n\n{text.doc(struct)}\n\n{_fields(struct)}"


def _fields(struct: type[msgspec.Struct]) -> str:
    notes = text.field_notes(struct)
    rows = [
        (
            f"`{field.encode_name}`",
            text.words(field.type) + _may_be_absent(field),
            notes.get(field.name, ""),
        )
        for field in text.fields(struct)
        if field.name != "trace"
    ]
    if tag_field := struct.__struct_config__.tag_field:
        rows.insert(0, (f"`{tag_field}`", f"`{_tag(struct)}`", ""))
    header = ("field", "holds", "") if any(note for *_, note in rows) else ("field", "holds")
    return text.table(header, (row[: len(header)] for row in rows))


def _may_be_absent(field: msgspec.inspect.Field) -> str:
    default = text.default_of(field)
    if default is msgspec.NODEFAULT:
        return ""
    return "; may be absent" if default is None else f"; `{msgspec.json.encode(default).decode()}` when absent"


def _parts() -> list[type[msgspec.Struct]]:
    """The Structs inside messages, by name."""
    found: dict[str, type[msgspec.Struct]] = {}
    waiting = [struct for kind in messages.KINDS.values() for struct in _inside(kind)]
    while waiting:
        struct = waiting.pop()
        if struct not in messages.KINDS.values() and struct.__name__ not in found:
            found[struct.__name__] = struct
            waiting += _inside(struct)
    return [found[name] for name in sorted(found)]


def _inside(struct: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    return [inner for field in text.fields(struct) for inner in text.structs_in(field.type)]


def _arguments() -> list[type[msgspec.Struct]]:
    shapes = [shape for shape in get_args(tools.ToolArguments) if issubclass(shape, msgspec.Struct)]
    return shapes + [inner for shape in shapes for inner in _inside(shape)]


def _codes() -> str:
    rows = (
        (
            f"`{code}`",
            row.sentence,
            f"[{row.runbook}](runbook.md#{row.runbook})" if row.runbook else "",
        )
        for code, row in faults.FAULTS.items()
    )
    return text.table(("code", "sentence", "runbook"), rows)


def _reasons() -> str:
    return text.table(("id", "sentence"), ((f"`{key}`", sentence) for key, sentence in reasons.REASONS.items()))
