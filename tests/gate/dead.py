"""Finds code of the product that the product itself never uses: `make gate`, or `python -m tests.gate.dead`.

What only a test calls is dead too. Fields of Structs and rows are left out: they are read by the codec, or by the peer.
"""

import ast
import sys
from pathlib import Path

from vulture import Vulture

PRODUCT = ("proto", "services", "bxctl")

ALIVE = {
    "_missing_": "enum calls it",
    "PATHS": "a table that the tests and the generated pages read",
    "extra_attributes": "anyio's streams are asked through it",
    "erase": "what the chain must survive; until a daemon erases, the tests alone do",
    "main": "a console script",
    **dict.fromkeys(
        ("on_body", "on_chunk_header", "on_header", "on_headers_complete", "on_status", "on_url"),
        "httptools tells of what it reads",
    ),
}
"""Names that something outside the product uses, and what that is."""

DECORATORS = ["@*.command", "@*.callback"]
"""What typer registers is called by typer."""

KINDS = {"class", "function", "import", "method", "property", "unreachable_code"}


def dead() -> list[str]:
    """One line for each thing that nothing uses."""
    vulture = Vulture(ignore_names=list(ALIVE), ignore_decorators=DECORATORS)
    vulture.scavenge(PRODUCT)
    return [
        f"{item.filename}:{item.first_lineno}: {item.message}"
        for item in vulture.get_unused_code()
        if item.typ in KINDS or (item.typ == "variable" and item.first_lineno in _constants(Path(item.filename)))
    ]


def _constants(path: Path) -> set[int]:
    """The lines of a module on which a name of the module itself is set."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return {node.lineno for node in body if isinstance(node, ast.Assign | ast.AnnAssign)}


if __name__ == "__main__":
    found = dead()
    print("\n".join(found))
    sys.exit(1 if found else 0)
