"""What may stand in no file, and what may stand in one only."""

import ast
import re
from collections import defaultdict
from pathlib import Path

from tests.shape import tree

UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
UNFINISHED_CODE = re.compile(r"\bNotImplementedError\b|(?i:\bplaceholder\b|\bstub(?:bed)?\b)")
# One machine's own folders, and the addresses of registries: each machine is set up for its own.
# They are put together here, so that this file names none of them either.
_FOLDERS = (rf"(?<![\w.}}/-])/{'work'}/", rf"/{'root'}/\.")
_REGISTRIES = (r"\bpypi", "pythonhosted", "npmjs", r"deb\.debian")
ONE_MACHINE = re.compile("|".join([*_FOLDERS, *(rf"{name}\.org" for name in _REGISTRIES)]))
SHORTEST_SENTENCE_WORDS = 7


def _found(pattern: re.Pattern[str], *folders: str) -> dict[str, list[str]]:
    found = {}
    for path in tree.files(*folders):
        if path == Path(__file__):
            continue
        try:
            words = pattern.findall(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            continue  # golden bytes
        if words:
            found[str(path.relative_to(tree.ROOT))] = words
    return found


def test_nothing_is_left_unfinished() -> None:
    assert _found(UNFINISHED) == {}


def test_no_code_of_the_product_stands_in_for_other_code() -> None:
    assert _found(UNFINISHED_CODE, *tree.PRODUCT) == {}


def test_no_file_knows_one_machine_or_a_registry() -> None:
    assert _found(ONE_MACHINE) == {}


def test_a_sentence_is_written_once() -> None:
    """A fixed sentence is a constant: two copies of it would part one day."""
    places = defaultdict(list)
    for module in tree.modules():
        notes = tree.docstrings(module)
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in notes:
                places[node.value].append(f"{module.path}:{node.lineno}")
    sentences = {text: where for text, where in places.items() if len(text.split()) >= SHORTEST_SENTENCE_WORDS}
    assert {text: where for text, where in sentences.items() if len(where) > 1} == {}
