"""Whatever a model puts into a tool call, it becomes a call for the log and something to do, never a crash."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopd.session.records import Call
from loopd.tools.calls import RawCall, parse, read_all
from proto.canon import compact
from proto.messages.broker import ToolRequest
from tests.loopd.logs import ARGUMENTS

ANY_TEXT = st.text(max_size=30)
RAW = st.builds(
    RawCall,
    ANY_TEXT | st.sampled_from(["a", "call_4_0"]),
    ANY_TEXT | st.sampled_from(["recall", "call_tool", "clock"]),
    ANY_TEXT
    | ARGUMENTS.map(json.dumps)
    | st.builds(lambda tool, inner: json.dumps({"tool": tool, "arguments": inner}), ANY_TEXT, ARGUMENTS),
)


def one(name: str, arguments: str, id: str = "a") -> tuple[Call, str | None]:
    (wanted,) = read_all((RawCall(id, name, arguments),), set(), 4)
    return wanted.call, wanted.refused


@settings(max_examples=200)
@given(st.lists(RAW, max_size=5), st.sets(ANY_TEXT | st.just("call_4_1"), max_size=3))
def test_any_call_becomes_one_that_can_be_kept_and_sent_back(raw: list[RawCall], used: set[str]) -> None:
    wanted = read_all(tuple(raw), used, 4)
    ids = [one.call.id for one in wanted]
    assert len(wanted) == len(raw)
    assert len({*ids, *used}) == len(ids) + len(used)
    for one in wanted:
        assert one.call.id.isascii()
        assert 1 <= len(one.call.id) <= 128
        assert one.call.name.replace("_", "a").replace("-", "a").isalnum()
        assert len(one.call.name) <= 64
        assert json.loads(compact(one.call.arguments).encode()) == one.call.arguments
        assert one.key
        if one.refused is None:
            ToolRequest(session="chat-a", call=one.call.id, tool=one.tool, arguments=one.arguments)
        else:
            one.refused.encode()


@given(ARGUMENTS)
def test_good_arguments_are_what_the_model_wrote(arguments: dict[str, object]) -> None:
    assert parse(json.dumps(arguments)) == arguments


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"query": "x"', "refused: the arguments of recall are not JSON (Expecting ',' delimiter at character 14); they were: {\"query\": \"x\""),
        ("query", "refused: the arguments of recall are not JSON (Expecting value at character 1); they were: query"),
        ("[1]", "refused: the arguments of recall are JSON, but not a map; they were: [1]"),
        ('"x"', 'refused: the arguments of recall are JSON, but not a map; they were: "x"'),
        ('{"k": NaN}', 'refused: the arguments of recall hold NaN, which JSON has not; they were: {"k": NaN}'),
        ('{"k": -Infinity}', 'refused: the arguments of recall hold -Infinity, which JSON has not; they were: {"k": -Infinity}'),
        ('{"k": 1e999}', 'refused: the arguments of recall hold a number that is too large; they were: {"k": 1e999}'),
        ('{"k": 18446744073709551616}', "refused: the arguments of recall hold an integer beyond 64 bits"),
        ('{"k": ' + "9" * 5000 + "}", "refused: the arguments of recall hold an integer beyond 64 bits"),
        ('{"k": -9223372036854775809}', "refused: the arguments of recall hold an integer beyond 64 bits"),
        ('{"k": "\\ud800"}', "refused: the arguments of recall hold half of a surrogate pair"),
        ('{"k":' * 40 + "1" + "}" * 40, "refused: the arguments of recall cannot be used: arguments are nested deeper than 32"),
        ("[" * 100_000, "refused: the arguments of recall are nested too deep"),
        ("{}{}", "refused: the arguments of recall are not JSON (Extra data at character 3)"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused_with_a_sentence(text: str, sentence: str) -> None:
    call, refused = one("recall", text)
    assert refused is not None
    assert refused.startswith(sentence)
    assert call == Call("a", "recall", {})


def test_what_many_models_write_is_understood() -> None:
    assert one("clock", "") == (Call("a", "clock", {}), None)
    assert one("recall", '{"query": "two\nlines"}') == (Call("a", "recall", {"query": "two\nlines"}), None)
    inner = '{"tool": "http_fetch", "arguments": "{\\"url\\": \\"https://example.org/\\"}"}'
    (wanted,) = read_all((RawCall("a", "call_tool", inner),), set(), 0)
    assert (wanted.tool, wanted.arguments) == ("http_fetch", {"url": "https://example.org/"})


def test_ids_are_made_unique_in_the_session() -> None:
    raw = tuple(RawCall(one, "clock", "") for one in ("a", "a", "", "é", "b c", "x" * 129, "call_7_1"))
    assert [wanted.call.id for wanted in read_all(raw, {"call_7_5", "a"}, 7)] == [
        "call_7_0", "call_7_1", "call_7_2", "call_7_3", "call_7_4", "call_7_5_", "call_7_6",
    ]  # fmt: skip


def test_a_name_that_no_provider_takes_back_is_changed_in_the_log() -> None:
    assert one("", "")[0].name == "unnamed"
    assert one("re call/é", "")[0].name == "re_call__"
    assert one("x" * 100, "")[0].name == "x" * 64


def test_an_unknown_tool_is_refused() -> None:
    sentence = "refused: there is no tool of the name {}; find_tool shows the tools that there are"
    assert one("search", "{}")[1] == sentence.format("search")
    assert one("call_tool", '{"tool": "call_tool", "arguments": {}}')[1] == sentence.format("call_tool")
    assert one("call_tool", '{"tool": "a\\u202eb", "arguments": {}}')[1] == sentence.format("a\\u{202e}b")


@pytest.mark.parametrize(
    "text", ["{}", '{"tool": 1}', '{"tool": "clock", "arguments": []}', '{"tool": "clock", "url": "x"}']
)
def test_a_call_tool_without_its_shape_is_refused(text: str) -> None:
    call, refused = one("call_tool", text)
    assert refused == 'refused: call_tool takes {"tool": a name, "arguments": a map}'
    assert call.arguments == json.loads(text)


def test_a_tool_is_the_same_inside_call_tool_and_outside() -> None:
    raw = (
        RawCall("a", "http_fetch", '{"url": "u"}'),
        RawCall("b", "call_tool", '{"tool": "http_fetch", "arguments": {"url": "u"}}'),
    )
    first, second = read_all(raw, set(), 0)
    assert first.key == second.key
    assert (first.refused, second.refused) == (None, None)
    assert second.call.name == "call_tool"
