import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoryd.index.hits import Row
from memoryd.index.walk import NESTING_LIMIT, DamagedRecord, WalkState, walk
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
        said("a").replace(TIME.encode(), b"0001-01-01T00:00:00+23:59"),
        said("a").replace(TIME.encode(), b"9999-12-31T23:59:59-23:59"),
        said("a").replace(TIME.encode(), b"20260920T140200Z"),
        said("a").replace(TIME.encode(), b"2026-W38-7T10:00Z"),
        said("a").replace(TIME.encode(), b"2026-09-20T14:02:00+00:00:30"),
        said("a").replace(TIME.encode(), b"2026-02-30T14:02:00Z"),
        b"[" * 200_000 + b"\n",
        b'{"a":' * 100_000 + b"\n",
        said("a")[:-2] + b',"extra":' + b"[" * 2000 + b"]" * 2000 + b"}\n",
        line("assistant", tool_calls=[{"name": "f", "arguments": {"n": 1}}]).replace(b"1", b"9" * 9000),
    ],
)
def test_what_is_no_record_is_damage(damaged: bytes) -> None:
    with pytest.raises(DamagedRecord):
        walk(SESSION, damaged, WalkState())


@pytest.mark.parametrize(
    "time",
    [
        *(f"2026-09-20T{time}Z" for time in ("24:00", "24:00:00", "24:00:00.0", "25:00:00", "14:60:00", "14:02:60")),
        *(f"2026-09-20T14:02:00{offset}" for offset in ("+24:00", "-24:00", "+02:60", "-00:99", "+2:00", "z")),
        "2026-09-31T14:02:00Z",
        "2026-13-01T14:02:00Z",
        "0001-01-01T00:00:00+23:59",
    ],
)
def test_a_time_that_is_none_is_damage_in_every_version_of_python(time: str) -> None:
    with pytest.raises(DamagedRecord):
        walked(said("a").replace(TIME.encode(), time.encode()))


@pytest.mark.parametrize("time", ["2026-09-20T14:02:00.123456+02:00", "2026-09-20T14:02Z", "9999-12-31T23:59:59Z"])
def test_every_form_of_a_time_with_an_offset_is_read(time: str) -> None:
    rows, _ = walked(said("a").replace(TIME.encode(), time.encode()))
    assert [row.time for row in rows] == [time]


def called(depth: int) -> bytes:
    """A call whose arguments nest so deep that the line does to this depth."""
    opened = depth - 4
    arguments = b'{"a":' + b"[" * opened + b"]" * opened + b"}"
    call = {"id": "1", "name": "f", "arguments": {"x": 0}}
    return line("assistant", tool_calls=[call]).replace(b'{"x": 0}', arguments)


def test_how_deep_a_line_may_nest_does_not_depend_on_who_asks() -> None:
    def from_below(frames: int, damaged: bytes) -> int:
        return from_below(frames - 1, damaged) if frames else walked(damaged)[1].records

    assert from_below(0, called(NESTING_LIMIT)) == from_below(300, called(NESTING_LIMIT)) == 1
    for frames in (0, 300):
        with pytest.raises(DamagedRecord):
            from_below(frames, called(NESTING_LIMIT + 1))


def test_brackets_in_a_text_are_no_nesting() -> None:
    rows, _ = walked(said('"[{' * 9000 + "\\"), line("assistant", content="\\" * 9 + "[" * 9000))
    assert [row.text.count("[") for row in rows] == [9000, 9000]


def test_an_empty_text_is_a_record_without_a_row() -> None:
    rows, state = walked(said(" \n"), line("assistant", content=""))
    assert (rows, state.records) == ([], 2)
