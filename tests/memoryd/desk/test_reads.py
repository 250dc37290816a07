"""The span of a read: counts and ids of what was served, and the query with the class of its session."""

from memoryd.desk import reads
from memoryd.index import RecallAnswer
from memoryd.index.hits import Hit
from proto.labels import PRIVATE, DataClass
from proto.role import trace
from tests.fakes.spans import kept

HIT = Hit(kind="record", session="chat-1", epoch=0, record=7, time="2026-09-24T21:02:03Z", label=PRIVATE)


def test_a_recall_says_how_much_was_served_and_not_what() -> None:
    answer = RecallAnswer(text="[1] memory · … \nThursday", label=PRIVATE, hits=(HIT,))
    with kept("memoryd") as sink, trace.span(reads.NAME, "server") as span:
        reads.recalled(span, "chat-2", "when?", DataClass.SECRET, answer)
    (told,) = sink.spans
    assert told.attributes["boxmaker.memory.hits"] == told.attributes["gen_ai.memory.record.count"] == 1
    assert told.attributes["boxmaker.memory.tokens"] == -(-len(answer.text.encode()) // 4)
    assert told.attributes["boxmaker.memory.entries"] == ["chat-1/0/7"]
    assert told.attributes["boxmaker.session"] == "chat-2"
    assert "Thursday" not in str(told)
    assert told.texts == {"boxmaker.memory.query": "when?", "gen_ai.memory.query.text": "when?"}
    assert (told.class_, told.span_kind) == (DataClass.SECRET, "server")


def test_the_block_of_a_new_session_is_a_read_without_a_query() -> None:
    with kept("memoryd") as sink, trace.span(reads.NAME, "server") as span:
        reads.block_served(span, "# soul.md")
    assert sink.spans[0].attributes["boxmaker.memory.tool"] == "memory_block"
    assert sink.spans[0].texts == {}
