"""The lock of the wire: a digest of every kind, and a line in `schema.lock` for every version that it ever had.

`python -m proto.schema` writes the lines that are missing; a changed kind whose line is missing fails the shape tests,
so that no change of the wire goes unseen.
"""

import sys
import typing
from pathlib import Path
from typing import Any, Final

import msgspec

from proto.canon import canonical, digest
from proto.messages import KINDS

LOCK: Final = Path(__file__).with_name("schema.lock")
_DIGEST_CHARS: Final = 16


def describe(kind: type[msgspec.Struct]) -> dict[str, str]:
    """The fields of a kind as they go on the wire, each with its type and, where it has one, its default."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return {
        field.encode_name: f"{_type_text(hints[field.name])}{'' if field.required else ' = ' + repr(field.default)}"
        for field in msgspec.structs.fields(kind)
    }


def line_of(name: str) -> str:
    """The line that `schema.lock` must hold for a kind as it is now."""
    return f"{name} {digest(canonical([name, describe(KINDS[name])]))[:_DIGEST_CHARS]}"


def missing() -> list[str]:
    """The lines that the lock lacks: kinds that are new or were changed."""
    held = set(LOCK.read_text().splitlines()) if LOCK.exists() else set()
    return [line for name in sorted(KINDS) if (line := line_of(name)) not in held]


def _type_text(hint: Any) -> str:
    """A type as text that does not depend on the version of Python: a Struct by its own fields."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return f"{hint.__name__}{describe(hint)}"
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return f"{_type_text(arguments[0])} {arguments[1:]!r}"
    if origin is typing.Literal:
        return f"one of {sorted(arguments)}"
    if arguments:
        name = "any of" if origin.__name__ in ("Union", "UnionType") else origin.__name__
        return f"{name}[{', '.join(map(_type_text, arguments))}]"
    return getattr(hint, "__name__", str(hint))


def main() -> int:
    """Append the missing lines, and say which."""
    with LOCK.open("a") as file:
        for line in missing():
            file.write(f"{line}\n")
            sys.stdout.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
