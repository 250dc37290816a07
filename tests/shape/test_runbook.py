"""Every refusal that the owner can do something about has an entry in the runbook, and every entry has such a refusal."""

import re

from proto.faults import FAULTS
from tests.shape import tree


def _headings() -> list[str]:
    text = (tree.ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    return re.findall(r"^## `?([a-z-]+)`?$", text, re.MULTILINE)


def test_every_entry_that_a_code_names_is_there() -> None:
    assert {row.runbook for row in FAULTS.values() if row.runbook} - set(_headings()) == set()


def test_every_entry_is_named_by_a_code() -> None:
    assert set(_headings()) - {row.runbook for row in FAULTS.values()} == set()


def test_no_entry_stands_twice() -> None:
    assert len(_headings()) == len(set(_headings()))
