import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.index.hits import Row
from memoryd.index.walk import DamagedRecord, WalkState, walk
from proto.labels import PRIVATE, DataClass, Label, covers

SESSION = "chat-1"
TIME = "2026-09-20T14:02:00Z"


def line(kind: str, **fields: Any) -> bytes:
    return json.dumps({"kind": kind, "time": TIME, **fields}, ensure_ascii=False).encode() + b"\n"


def result(class_: str = "private", untrusted: bool = False) -> bytes:
    fields = {"call": "1", "name": "f", "content": "never indexed", "class": class_, "untrusted": untrusted}
    return line("tool_result", **fields)


def walked(*lines: bytes) -> tuple[list[Row], WalkState]:
    rows: list[Row] = []
    state = WalkState()
    for each in lines:
        found, state = walk(SESSION, each, state)
        rows += found
    return rows, state


def said(text: str) -> bytes:
    return line("user", text=text, author=None)


def test_what_was_said_and_called_is_indexed_and_nothing_else() -> None:
    call = {"id": "1", "name": "read_file", "arguments": {"path": "/srv/notes/q3.txt", "n": 1}}
    rows, state = walked(
        said("hello"),
        line("assistant", content="I will look", tool_calls=[call, call], reasoning_content="secret thought"),
        result(),
        line("assistant", content=None, tool_calls=[call]),
        line("user", text="and?", author="bob"),
    )
    shown = [(row.record, row.role, row.author, row.text) for row in rows]
    called = 'read_file {"path":"/srv/notes/q3.txt","n":1}'
    assert shown == [
        (0, "user", None, "hello"),
        (1, "assistant", None, "I will look"),
        (1, "call", None, called),
        (1, "call", None, called),
        (3, "call", None, called),
        (4, "user", "bob", "and?"),
    ]
    assert state.records == 5


def test_a_call_keeps_the_order_of_its_keys_and_its_characters() -> None:
    call = {"id": "1", "name": "call_tool", "arguments": {"tool": "note", "arguments": {"z": "日本 é", "a": [1, {}]}}}
    rows, _ = walked(line("assistant", content=None, tool_calls=[call]))
    assert [row.text for row in rows] == ['note {"z":"日本 é","a":[1,{}]}']


def test_a_call_tool_of_another_shape_is_indexed_as_it_is() -> None:
    rows, _ = walked(line("assistant", tool_calls=[{"id": "1", "name": "call_tool", "arguments": {"tool": 3}}]))
    assert [row.text for row in rows] == ['call_tool {"tool":3}']


def test_each_record_has_the_label_in_force_when_it_was_written() -> None:
    rows, state = walked(
        said("a"), result("public"), said("b"), result("private", True), said("c"), result("secret"), said("d")
    )
    assert [(row.label.class_.value, row.label.untrusted) for row in rows] == [
        ("private", False),
        ("private", False),
        ("private", True),
        ("secret", True),
    ]
    assert state.label == Label(class_=DataClass.SECRET, untrusted=True)


def test_a_labelled_post_of_another_has_its_label_and_passes_it_on() -> None:
    rows, _ = walked(line("user", text="a", author="bob", untrusted=True, **{"class": "restricted"}), said("b"))
    assert [row.label for row in rows] == [Label(class_=DataClass.SECRET, untrusted=True)] * 2


def test_the_records_names_for_classes_are_read() -> None:
    _, state = walked(result("internal"))
    assert state.label == PRIVATE
    _, state = walked(result("restricted"))
    assert state.label.class_ is DataClass.SECRET


@given(st.lists(st.tuples(st.sampled_from(["public", "private", "secret"]), st.booleans())))
def test_a_sessions_label_never_falls(labels: list[tuple[str, bool]]) -> None:
    state = WalkState()
    for class_, untrusted in labels:
        _, after = walk(SESSION, result(class_, untrusted), state)
        assert covers(after.label, state.label)
        assert covers(after.label, Label(class_=DataClass(class_), untrusted=untrusted))
        state = after


@pytest.mark.parametrize(
    "damaged",
    [
        b"\n",
        b"{\n",
        b"[]\n",
        b"\xff\n",
        b'{"kind":"user"}\n',
        line("user"),
        line("user", text=None),
        line("user", text="a", **{"class": "top"}),
        line("thought", text="a"),
        line("tool_result", call="1", name="f", content="x", untrusted=False),
        line("tool_result", call="1", name="f", content="x", untrusted="no", **{"class": "private"}),
        line("assistant", content="x", tool_calls=[{"name": "f", "arguments": "not a map"}]),
        b'{"kind":"user","time":"yesterday","text":"a"}\n',
        b'{"kind":"user","time":"2026-09-20T14:02:00","text":"a"}\n',
        b'{"kind":"user","time":"2026-09-20T14:02:00Z","text":"\\ud800"}\n',
        said("a")[:-1] + said("b"),
    ],
)
def test_what_is_no_record_is_damage(damaged: bytes) -> None:
    with pytest.raises(DamagedRecord):
        walk(SESSION, damaged, WalkState())


def test_an_empty_text_is_a_record_without_a_row() -> None:
    rows, state = walked(said(" \n"), line("assistant", content=""))
    assert (rows, state.records) == ([], 2)
