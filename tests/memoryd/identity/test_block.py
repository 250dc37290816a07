"""The memory block: its form, and that nothing in it can look like what it is not."""

import re

from hypothesis import given
from hypothesis import strategies as st

from memoryd.gate.check import find
from memoryd.identity.block import render_block
from memoryd.identity.entries import parse, render


def test_the_form() -> None:
    entries = {"memory": ["one", "two\nlines"], "user": []}
    assert render_block("Me.", entries, entries) == (
        "# soul.md\nMe.\n\n"
        "# memory.md (15 of 2,200 characters)\none\n§\ntwo\nlines\n\n"
        "# user.md (0 of 1,375 characters)\n(empty)"
    )


def test_what_is_left_out_counts_to_the_size() -> None:
    entries = {"memory": ["shown", "hid\u200bden"], "user": ["hid\u200bden"]}
    block = render_block("", entries, {"memory": ["shown"], "user": []})
    assert block == (
        "# soul.md\n(empty)\n\n"
        "# memory.md (15 of 2,200 characters)\nshown\n\n"
        "# user.md (7 of 1,375 characters)\n(empty)"
    )


TEXTS = st.text(alphabet=st.sampled_from("# memory.user(soul1,)\n§"), max_size=40)


@given(st.lists(TEXTS), st.lists(TEXTS))
def test_no_entry_looks_like_a_heading(memory: list[str], user: list[str]) -> None:
    """Whatever entries pass the check, the block has its three headings and what follows each is its entries."""
    entries = {"memory": parse(render(memory)), "user": parse(render(user))}
    shown = {key: [entry for entry in these if find(entry) is None] for key, these in entries.items()}
    block = render_block("Me.", entries, shown)
    headings = re.findall(r"^# (?:soul\.md$|memory\.md \(|user\.md \()", block, re.MULTILINE)
    assert headings == ["# soul.md", "# memory.md (", "# user.md ("]
    body = re.split(r"^# user\.md \(.*\)\n", block, flags=re.MULTILINE)[1]
    assert parse(body) == (shown["user"] or ["(empty)"])
