"""The files of the tree, and the product's modules as syntax trees."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PRODUCT = ("proto", "services", "bxctl")
DAEMONS = ("memoryd", "brokerd", "egressd", "loopd", "boxmaker_model")


class Module(NamedTuple):
    """A module of the product; `path` is under the root."""

    path: Path
    text: str
    tree: ast.Module


def files(*folders: str) -> Iterator[Path]:
    """Every file in some folders of the root, or in all of it; caches, environments and version control left out."""
    waiting = [ROOT / folder for folder in folders] or [ROOT]
    while waiting:
        for path in sorted(waiting.pop().iterdir()):
            if path.is_dir() and not path.is_symlink():
                if path.name == ".ci" or not path.name.startswith((".", "__pycache__", "dist")):
                    waiting.append(path)
            elif not path.name.startswith(".coverage"):
                yield path


@cache
def modules() -> tuple[Module, ...]:
    """The product's modules."""
    found = []
    for path in files(*PRODUCT):
        if path.suffix == ".py":
            text = path.read_text(encoding="utf-8")
            found.append(Module(path.relative_to(ROOT), text, ast.parse(text)))
    return tuple(found)


def functions(module: Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a module, inner ones too."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def docstrings(module: Module) -> set[ast.Constant]:
    """The strings that stand as a statement: docstrings, and the notes below fields."""
    return {
        node.value
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
