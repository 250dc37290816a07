"""Each module says what it is, and each daemon begins with its manual page."""

import ast
import importlib
import re

import pytest

from tests.gate.docs.roles import HEADINGS
from tests.shape import tree


def test_every_module_says_what_it_is() -> None:
    assert [str(module.path) for module in tree.modules() if not ast.get_docstring(module.tree)] == []


@pytest.mark.parametrize("daemon", tree.DAEMONS)
def test_a_daemon_begins_with_its_manual_page(daemon: str) -> None:
    page = importlib.import_module(daemon).__doc__ or ""
    assert re.findall(rf"^({'|'.join(HEADINGS)})\b", page, re.MULTILINE) == list(HEADINGS)
