"""Random logs of sessions, as a strategy: records that follow each other, as any log that loopd writes."""

from typing import Any

from hypothesis import strategies as st

from loopd.config import Model
from loopd.session.baseline import Baseline, assemble
from loopd.session.records import Assistant, Call, Record, ToolResult, User
from proto.labels import DataClass

TIME = "2026-09-24T21:02:03Z"
SESSION = "chat-20260924-210203-0a1b2c"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(TEXT, JSON, max_size=3)
CLASSES = st.sampled_from(DataClass)


def baseline(block: str = "# soul.md", *, send_reasoning: bool = False) -> Baseline:
    """The baseline of a session."""
    return assemble(SESSION, TIME, Model(send_reasoning=send_reasoning), block)


@st.composite
def logs(draw: Any, turns: int = 4) -> list[Record]:
    """A log; the last turn may be at any point of it."""
    records: list[Record] = []
    for _ in range(draw(st.integers(0, turns))):
        records.append(User(time=TIME, text=draw(TEXT), author=draw(st.none() | TEXT)))
        for _ in range(draw(st.integers(0, 2))):
            records += _round(draw, len(records))
        if draw(st.booleans()):
            records.append(_spoken(draw, []))
    return records[: draw(st.integers(0, len(records)))] if draw(st.booleans()) else records


def _round(draw: Any, number: int) -> list[Record]:
    names = draw(st.lists(st.sampled_from(["clock", "recall", "call_tool"]), min_size=1, max_size=3))
    calls = [Call(f"c{number}_{index}", name, draw(ARGUMENTS)) for index, name in enumerate(names)]
    results: list[Record] = [
        ToolResult(
            time=TIME,
            call=call.id,
            name=call.name,
            content=draw(TEXT),
            class_=draw(CLASSES),
            untrusted=draw(st.booleans()),
        )
        for call in draw(st.permutations(calls))
    ]
    return [_spoken(draw, calls), *results]


def _spoken(draw: Any, calls: list[Call]) -> Assistant:
    content = draw(st.none() | TEXT) if calls else draw(TEXT)
    return Assistant(time=TIME, content=content, tool_calls=calls, reasoning_content=draw(st.none() | TEXT))
