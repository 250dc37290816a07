"""The tables: homes, sockets, tools, faults, and what is printed from them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto import home as homes
from proto import sockets, tools
from proto.escape import clip, escape, escape_lines
from proto.faults import FAULTS, Fault


def test_no_path_has_two_writers() -> None:
    paths = [row.path for row in homes.PATHS]
    assert len(set(paths)) == len(paths)
    folders = [path for path in paths if path.endswith("/")]
    assert not [(a, b) for a in folders for b in paths if a != b and b.startswith(a)]


def test_no_two_sockets_share_a_path() -> None:
    paths = [row.path for row in sockets.SOCKETS]
    assert len(set(paths)) == len(paths)
    for row in sockets.SOCKETS:
        assert row.name.split("-")[1] in row.server


def test_a_socket_is_found_by_its_name() -> None:
    assert sockets.socket("loop-memory").path == "run/loop-memory/memory.sock"
    assert sockets.socket("egress-broker", "tools.sock").server == "brokerd"
    with pytest.raises(KeyError):
        sockets.socket("egress-broker")


def test_where_the_home_is(tmp_path: Path) -> None:
    environ = {"BOXMAKER_HOME": "/b", "XDG_DATA_HOME": str(tmp_path)}
    assert homes.default_home("/a", environ) == Path("/a")
    assert homes.default_home(None, environ) == Path("/b")
    assert homes.default_home(None, {}) == homes.SYSTEM_HOME
    (tmp_path / "boxmaker").mkdir()
    assert homes.default_home(None, {"XDG_DATA_HOME": str(tmp_path)}, own=True) == tmp_path / "boxmaker"


@given(st.text())
def test_an_escaped_text_is_one_visible_line(text: str) -> None:
    shown = escape(text)
    assert not {"\n", "\r", "\x1b", "\u202e", "\u200b", "\x85", "\u2028"} & set(shown)
    assert len(clip(text, 20)) <= 20


def test_what_is_escaped() -> None:
    assert escape("a\x1b[31m\u202eb\n\\") == "a\\u{1b}[31m\\u{202e}b\\n\\\\"
    assert escape("Grüße 世界 🙂") == "Grüße 世界 🙂"
    assert escape_lines("a\n\tb\x07") == "a\n\tb\\u{7}"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("recall", {"query": ""}),
        ("recall", {"query": "x" * 501}),
        ("recall", {"query": "x", "k": 0}),
        ("recall", {"query": "x", "k": 11}),
        ("recall", {"query": "x", "k": True}),
        ("recall", {"query": "x", "more": 1}),
        ("memory", {}),
        ("memory", {"action": "forget", "text": "x"}),
        ("memory", {"action": "add", "file": "soul", "text": "x"}),
        ("memory", {"action": "note", "text": "x" * 1001}),
        ("memory", {"action": "note", "text": "x", "file": "memory"}),
        ("memory", {"action": "consolidate", "file": "memory", "entries": [{"old": "a"}]}),
        ("memory", {"action": "consolidate", "file": "memory", "entries": [{"old": "a", "keep": True, "drop": True}]}),
        ("memory", {"action": "consolidate", "file": "memory", "entries": [{"keep": True}]}),
        ("http_fetch", {}),
    ],
)
def test_arguments_of_another_shape_are_refused(tool: str, arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=".+"):
        tools.parse_arguments(tool, arguments)


def test_arguments_of_the_shape() -> None:
    assert tools.parse_arguments("recall", {"query": "x"}) == tools.RecallArguments(query="x", k=5)
    parsed = tools.parse_arguments(
        "memory", {"action": "consolidate", "file": "user", "entries": [{"old": "a", "move": True}, {"text": "b"}]}
    )
    assert isinstance(parsed, tools.Consolidate)


def test_a_fault_says_where_to_read_on() -> None:
    assert (
        str(Fault("memory-unavailable", "memory.md: too long")) == "memory.md: too long (runbook: memory-unavailable)"
    )
    assert "(runbook" not in str(Fault("frame-empty"))
    assert all(row.sentence for row in FAULTS.values())
