"""Lines of a log to records and back, and where a log stands."""

import json

import pytest
from hypothesis import given, settings

from loopd.session.records import Assistant, Call, Record, ToolResult, User, from_line, position, to_line
from proto.canon import compact
from proto.labels import DataClass
from tests.loopd.logs import TIME, logs


@settings(max_examples=60)
@given(logs())
def test_a_record_comes_back_from_its_line(records: list[Record]) -> None:
    assert [from_line(json.loads(compact(to_line(record)))) for record in records] == records


def test_the_lines_are_those_of_the_contract() -> None:
    call = Call("c1", "recall", {"query": "launch"})
    lines: list[tuple[Record, dict[str, object]]] = [
        (User(time=TIME, text="hi", author=None), {"kind": "user", "time": TIME, "text": "hi", "author": None}),
        (
            User(time=TIME, text="hi", author="ann", class_=DataClass.SECRET, untrusted=True),
            {"kind": "user", "time": TIME, "text": "hi", "author": "ann", "class": "secret", "untrusted": True},
        ),
        (
            Assistant(time=TIME, content=None, tool_calls=[call]),
            {
                "kind": "assistant",
                "time": TIME,
                "content": None,
                "tool_calls": [{"id": "c1", "name": "recall", "arguments": {"query": "launch"}}],
            },
        ),
        (
            Assistant(time=TIME, content="a", tool_calls=[], reasoning_content="r"),
            {"kind": "assistant", "time": TIME, "content": "a", "tool_calls": [], "reasoning_content": "r"},
        ),
        (
            ToolResult(time=TIME, call="c1", name="recall", content="x", class_=DataClass.PRIVATE, untrusted=False),
            {
                "kind": "tool_result",
                "time": TIME,
                "call": "c1",
                "name": "recall",
                "content": "x",
                "class": "private",
                "untrusted": False,
            },
        ),
    ]
    for record, line in lines:
        assert to_line(record) == line
        assert from_line(line) == record


@pytest.mark.parametrize(
    "line",
    [
        None,
        {},
        {"kind": "system", "time": TIME, "text": "x"},
        {"kind": "user", "time": TIME, "text": "x"},
        {
            "kind": "assistant",
            "time": TIME,
            "content": "x",
            "tool_calls": [{"id": "a", "name": "b", "arguments": "{}"}],
        },
        {
            "kind": "tool_result",
            "time": TIME,
            "call": "a",
            "name": "b",
            "content": "c",
            "class": "top",
            "untrusted": False,
        },
    ],
)
def test_what_is_no_record_is_told(line: dict[str, object] | None) -> None:
    with pytest.raises(ValueError):
        from_line(line)


def _user() -> User:
    return User(time=TIME, text="hi", author=None)


def _asks(*ids: str) -> Assistant:
    return Assistant(time=TIME, content=None, tool_calls=[Call(one, "clock", {}) for one in ids])


def _answer() -> Assistant:
    return Assistant(time=TIME, content="hello", tool_calls=[])


def _result(id: str) -> ToolResult:
    return ToolResult(time=TIME, call=id, name="clock", content="now", class_=DataClass.PUBLIC, untrusted=False)


def test_where_a_log_stands() -> None:
    assert position([]).answered
    assert position([]).last_user is None
    asked = position([_user()])
    assert (asked.answered, asked.last_user, asked.rounds) == (False, 0, 0)
    open_calls = position([_user(), _answer(), _user(), _asks("a", "b"), _result("b")])
    assert [call.id for call in open_calls.open_calls] == ["a"]
    assert (open_calls.answered, open_calls.last_user, open_calls.rounds) == (False, 2, 1)
    assert open_calls.used_ids == {"a", "b"}
    assert not position([_user(), _asks("a"), _result("a")]).answered
    assert position([_user(), _asks("a"), _result("a"), _answer()]).answered


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([_user(), _result("a")], "record 1 is the result of no open call"),
        ([_user(), _asks("a"), _result("a"), _result("a")], "record 3 is the result of no open call"),
        ([_user(), _asks("a"), _user()], "record 2 comes before the result of a call"),
        ([_user(), _asks("a", "b"), _result("a"), _answer()], "record 3 comes before the result of a call"),
    ],
)
def test_records_that_do_not_follow_are_told(records: list[Record], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        position(records)
    assert str(caught.value) == message
