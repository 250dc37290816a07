"""Markdown pieces, and the words for a type on the wire or in a file."""

import ast
import functools
import inspect
from collections.abc import Iterable
from typing import Any

import msgspec
import msgspec.inspect as shapes

from proto import ids

GENERATED = "<!-- Generated from the source by `make docs`; edit the docstrings it came from. -->\n"

_ID_NAMES = {
    meta.pattern: name
    for name, value in vars(ids).items()
    for meta in getattr(value, "__metadata__", ())
    if isinstance(meta, msgspec.Meta) and meta.pattern
}


def id_forms() -> dict[str, str]:
    """The name of each kind of id, and the pattern of its form."""
    return {name: pattern.replace(r"\Z", "$") for pattern, name in sorted(_ID_NAMES.items(), key=lambda row: row[1])}


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table; bars inside cells are escaped."""
    lines = [
        header,
        tuple("---" for _ in header),
        *(tuple(cell.replace("|", r"\|") for cell in row) for row in rows),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def doc(thing: object) -> str:
    """A docstring as Markdown: its own paragraphs, and a list of what it raises left out."""
    return (inspect.getdoc(thing) or "").split("\nRaises:")[0].strip()


def field_notes(shape: type) -> dict[str, str]:
    """What is written below each field of a class, as a string of its own."""
    body = ast.parse(inspect.cleandoc("\n" + inspect.getsource(shape))).body[0]
    if not isinstance(body, ast.ClassDef):
        return {}
    notes = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(note))),
            ):
                notes[name] = " ".join(inspect.cleandoc(note).split())
            case _:
                pass
    return notes


def words(shape: shapes.Type, *, ids_named: bool = True) -> str:
    """A type in words a reader without Python knows; a Struct is named, and described where it stands.

    An id is named too, for a page that lists the forms of ids; without `ids_named` its form stands there.
    """
    inner_words = functools.partial(words, ids_named=ids_named)
    match shape:
        case shapes.Metadata(type=inner):
            return inner_words(inner)
        case shapes.StrType(pattern=str(pattern)):
            named = _ID_NAMES.get(pattern) if ids_named else None
            return named or f"text of the form `{pattern.replace(chr(92) + 'Z', '$')}`"
        case shapes.StrType():
            return "text" + _bounds(shape.min_length, shape.max_length, " characters")
        case shapes.IntType():
            return "whole number" + _bounds(shape.ge, shape.le)
        case shapes.FloatType():
            above = "" if shape.gt is None else f", more than {shape.gt:,}"
            return "number" + above + _bounds(shape.ge, shape.le)
        case shapes.LiteralType(values=values):
            return " or ".join(f"`{value}`" for value in values)
        case shapes.EnumType(cls=enum):
            return " or ".join(f"`{member.value}`" for member in enum)
        case shapes.ListType(item_type=item) | shapes.VarTupleType(item_type=item) | shapes.SetType(item_type=item):
            return f"list of {inner_words(item)}"
        case shapes.DictType(key_type=key, value_type=value):
            return f"map of {inner_words(key)} to {inner_words(value)}"
        case shapes.UnionType(types=types):
            return " or ".join(inner_words(one) for one in types)
        case shapes.StructType(cls=struct):
            return f"[{struct.__name__}](#{struct.__name__.lower()})"
        case _:
            return _PLAIN.get(type(shape), type(shape).__name__.removesuffix("Type").lower())


_PLAIN = {shapes.BoolType: "true or false", shapes.NoneType: "null", shapes.AnyType: "anything"}


def _bounds(low: float | None, high: float | None, unit: str = "") -> str:
    match low, high:
        case None, None:
            return ""
        case None, _:
            return f", at most {high:,}{unit}"
        case _, None:
            return f", at least {low:,}{unit}"
        case _:
            return f", {low:,} to {high:,}{unit}"


def default_of(field: shapes.Field) -> Any:
    """A field's default; `msgspec.NODEFAULT` when it has to be given."""
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def structs_in(shape: shapes.Type) -> list[type[msgspec.Struct]]:
    """The Structs that a type names, not those inside them."""
    match shape:
        case shapes.StructType(cls=struct):
            return [struct]
        case shapes.Metadata(type=inner) | shapes.ListType(item_type=inner) | shapes.VarTupleType(item_type=inner):
            return structs_in(inner)
        case shapes.DictType(value_type=inner):
            return structs_in(inner)
        case shapes.UnionType(types=types):
            return [struct for one in types for struct in structs_in(one)]
        case _:
            return []


def fields(struct: type[msgspec.Struct]) -> tuple[shapes.Field, ...]:
    """The fields of a Struct with their types."""
    info = shapes.type_info(struct)
    assert isinstance(info, shapes.StructType)
    return info.fields
