"""Decided calls over the real socket of a real daemon."""

import json
import os
import socket
import struct
import threading
import time
from typing import Any

import anyio
import msgpack
import pytest

from memoryd.desk.broker import BrokerDesk
from memoryd.desk.indexing import Indexing
from memoryd.desk.turns import Turns
from memoryd.trail import answers
from proto import frame
from proto.faults import Fault
from proto.labels import PRIVATE, DataClass
from proto.messages.broker import ToolRequest, ToolResponse
from proto.messages.memory import MemoryCall, MemoryShow, MemoryShowReply, Reindex, Reindexed
from proto.messages.wire import Error, Ok, Ping
from proto.role.ask import ask
from proto.role.serve import Connection
from tests.memoryd.box import SECRET, UNTRUSTED, Box, add, note
from tests.memoryd.daemon import Daemon, assistant, result, user


class Waiting(Connection):
    """A peer that waits for its answer."""

    def __init__(self) -> None:
        pass

    def peer_gone(self) -> bool:
        return False


def _raw(daemon: Daemon, **message: Any) -> Any:
    """What the daemon answers to a map."""
    body = msgpack.packb(message)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(daemon.broker))
        connection.sendall(struct.pack(">I", len(body)) + body)
        with connection.makefile("rb") as answer:
            data = answer.read()
    return frame.Decoder((Error, ToolResponse)).decode(data[4:])


def test_the_inner_request_may_have_its_kind_or_not(daemon: Daemon) -> None:
    inner = {"session": "chat-a", "call": "x1", "tool": "memory", "arguments": note("seen")}
    taint = {"taint": "private", "untrusted": False}
    assert _raw(daemon, kind="memory_call", request=inner, **taint).text == "noted"
    inner = {**inner, "kind": "tool_request", "call": "x2"}
    assert _raw(daemon, kind="memory_call", request=inner, **taint).text == "noted"
    # The record's names of the classes are understood.
    inner["call"] = "x3"
    taint = {"taint": "restricted", "untrusted": False}
    assert _raw(daemon, kind="memory_call", request=inner, **taint).text == "noted"
    assert daemon.edits()[-1]["class"] == "secret"


def test_what_is_no_request_does_not_decode(daemon: Daemon) -> None:
    good = {"session": "chat-a", "call": "x1", "tool": "memory", "arguments": note("seen")}
    changes: list[dict[str, Any]] = [
        {"session": "chat-A"},
        {"session": "chat-a\n"},
        {"call": ""},
        {"call": "x" * 129},
        {"arguments": [1]},
        {"more": 1},
        {"kind": "memory_call"},
    ]
    for change in changes:
        answer = _raw(daemon, kind="memory_call", request={**good, **change}, taint="private", untrusted=False)
        assert answer.code == "frame-undecodable", change
    assert _raw(daemon, kind="memory_block").code == "kind-unknown"
    assert daemon.edits() == []


SHAPE = "refused: the arguments have not the tool's shape"


BAD_SHAPES: list[tuple[str, dict[str, Any]]] = [
    ("memory", {"action": "add", "file": "soul", "text": "x"}),
    ("memory", {"action": "forget"}),
    ("memory", {"text": "x"}),
    ("memory", {"action": "note", "text": ""}),
    ("memory", {"action": "note", "text": "x" * 1001}),
    ("memory", {"action": "note", "text": "x", "class": "public"}),
    ("memory", {"action": "consolidate", "file": "memory", "entries": [{"old": "a", "keep": True, "drop": True}]}),
    ("memory", {"action": "consolidate", "file": "memory", "entries": [{"old": "a"}]}),
    ("recall", {"query": ""}),
    ("recall", {"query": "x" * 501}),
    ("recall", {"query": "x", "k": 11}),
    ("recall", {"query": "x", "k": 0}),
]


def test_shapes_are_checked_here_too(daemon: Daemon) -> None:
    for tool, arguments in BAD_SHAPES:
        answer = daemon.call(arguments, SECRET, tool=tool)
        assert (answer.ok, answer.class_, answer.untrusted) == (False, "private", False)
        assert answer.text.startswith(SHAPE), arguments
    assert daemon.edits() == []


def test_a_tool_of_another_runtime_is_refused(daemon: Daemon) -> None:
    answer = daemon.call({"url": "https://example.org"}, tool="http_fetch")
    assert (answer.ok, answer.text) == (False, "refused: there is no tool of that name")


def test_answers_to_writes_are_private_and_trusted(daemon: Daemon) -> None:
    for arguments, label in ((add("a"), PRIVATE), (note("b"), UNTRUSTED), (add("c"), SECRET)):
        answer = daemon.call(arguments, label)
        assert (answer.ok, answer.class_, answer.untrusted) == (True, "private", False)
    refused = daemon.call(add("a"))
    assert (refused.ok, refused.text, refused.class_) == (False, "memory.md already holds this entry", "private")


def test_a_repeated_call_gets_the_first_answer(daemon: Daemon) -> None:
    first = daemon.call(add("a"), call="x")
    assert daemon.call(add("a"), call="x") == first
    assert daemon.call(note("another"), UNTRUSTED, call="x") == first
    refused = daemon.call(add("a"), call="y")
    found = daemon.recall("a question")
    assert not refused.ok
    daemon.restart()
    assert daemon.call(add("a"), call="x") == first
    assert daemon.call(add("b"), call="y") == refused
    assert [line["call"] for line in daemon.edits()] == ["x"]
    assert found.text == '(no matches for "a question")'
    # Another session's call of that id is another call.
    assert daemon.call(add("c"), call="x", session="chat-b").ok


def test_what_a_write_was_answered_is_in_the_journal_alone_too(daemon: Daemon) -> None:
    answers = [
        daemon.call(add("a"), call="1"),
        daemon.call(note("n"), UNTRUSTED, call="2"),
        daemon.call(add("s"), SECRET, call="3"),
    ]
    daemon.stop()
    (daemon.home / "state" / "memoryd" / "answers.jsonl").unlink()
    daemon.start()
    assert [daemon.call(note("other"), call=call) for call in "123"] == answers
    assert len(daemon.edits()) == 3


def test_a_write_is_remembered_longer_than_any_number_of_other_answers(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "MOST", 10)
    indexing = Indexing(box.holdings)
    desk = BrokerDesk(box.holdings, Turns(), indexing)

    def ask_desk(call: str, tool: str, arguments: dict[str, Any]) -> ToolResponse:
        request = ToolRequest(session="chat-a", call=call, tool=tool, arguments=arguments)
        message = MemoryCall(request=request, taint=DataClass.PRIVATE, untrusted=False)
        return anyio.run(desk.answer, message, Waiting())

    indexing._caught_up.set()
    first = ask_desk("old", "memory", note("the first"))
    refused = ask_desk("no", "memory", note("\u200b"))
    for number in range(25):
        ask_desk(f"r{number}", "recall", {"query": "q"})
    assert ask_desk("old", "memory", note("the first")) == first
    assert ask_desk("old", "recall", {"query": "q"}) == first
    assert ask_desk("old", "memory", {"action": "no action"}) == first
    assert ask_desk("no", "memory", note("\u200b")) == refused
    assert [line["call"] for line in box.lines()] == ["old"]
    assert (box.home / "state" / "memoryd" / "answers.jsonl").read_bytes().count(b"\n") <= 20


def test_the_same_call_at_the_same_time_is_made_once(daemon: Daemon) -> None:
    answers: list[ToolResponse] = []
    callers = [threading.Thread(target=lambda: answers.append(daemon.call(note("n"), call="x"))) for _ in range(12)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(answers) == 12
    assert {answer.text for answer in answers} == {"noted"}
    assert len(daemon.edits()) == 1


def test_a_call_whose_connection_closed_before_its_intent_is_not_made(daemon: Daemon) -> None:
    daemon.call(add("a"))
    request = {"session": "chat-a", "call": "gone", "tool": "memory", "arguments": note("n")}
    body = msgpack.packb({"kind": "memory_call", "request": request, "taint": "private", "untrusted": False})
    with (daemon.home / "memory" / "memory.md").open("a"):
        # An editor has the file open: the write waits before its intent.
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(daemon.broker))
            connection.sendall(struct.pack(">I", len(body)) + body)
            time.sleep(0.2)
        # Pings are answered meanwhile.
        ask(daemon.broker, Ping(), Ok, timeout_s=0.5)
    assert [line["call"] for line in daemon.edits()] == ["call 1"]
    assert daemon.call(note("n"), call="gone").text == "noted"


def test_recall_tags_every_kind_of_hit(daemon: Daemon) -> None:
    daemon.call(add("apple moved"))
    daemon.call(add("apple dropped"))
    daemon.call(
        {
            "action": "consolidate", "file": "memory",
            "entries": [{"old": "apple moved", "move": True}, {"old": "apple dropped", "drop": True}],
        }
    )  # fmt: skip
    daemon.call(note("apple noted clean"))
    daemon.call(note("apple noted tainted"), UNTRUSTED)
    daemon.call(note("apple noted secret"), SECRET)
    daemon.log("chat-b", user("apple before"), result("private", untrusted=True), assistant("apple after"))
    daemon.updated("chat-b")
    answer = daemon.recall("apple", k=10)
    lines = answer.text.splitlines()
    tags = {text: source.split("] ")[1] for source, text in zip(lines[::2], lines[1::2], strict=True)}
    day = daemon.edits()[0]["time"][:10]
    minute = daemon.edits()[3]["time"][:16].replace("T", " ")
    assert tags == {
        "apple moved": f"identity · moved {day} from memory.md · private",
        "apple dropped": f"memory · dropped {day} from memory.md · private",
        "apple noted clean": f"memory · note, {minute} UTC, session chat-a · private",
        "apple noted tainted": f"memory-tainted · note, {minute} UTC, session chat-a · private",
        "apple before": "memory · session chat-b, 2026-09-20 14:02 UTC, the owner said · private",
        "apple after": "memory-tainted · session chat-b, 2026-09-20 14:02 UTC, the assistant said · private",
    }
    assert (answer.ok, answer.class_, answer.untrusted) == (True, "private", True)


def test_a_recall_knows_what_a_hand_has_just_changed_in_notes(daemon: Daemon) -> None:
    daemon.call(note("a secret word: tamarind"))
    assert "tamarind" in daemon.recall("tamarind").text
    path = daemon.home / "memory" / "notes.md"
    before = path.read_text()
    path.write_text(before.replace("tamarind", "kumquat"))
    assert daemon.recall("tamarind").text == '(no matches for "tamarind")'
    assert "kumquat" in daemon.recall("kumquat").text
    # Long after the last change, too, when a look costs no more than a stat.
    long_ago = time.time() - 100
    os.utime(path, (long_ago, long_ago))
    time.sleep(1.1)
    assert "kumquat" in daemon.recall("kumquat").text
    path.write_text(before)
    assert "tamarind" in daemon.recall("tamarind").text
    assert [line["by"] for line in daemon.edits()] == ["agent", "owner", "owner"]
    path.unlink()
    assert "tamarind" in daemon.recall("tamarind").text


def test_every_recall_is_logged_with_the_sources_of_its_hits(daemon: Daemon) -> None:
    daemon.log("chat-b", user("apple"), user("pear"))
    daemon.updated("chat-b")
    daemon.recall("pear", session="chat-c")
    daemon.recall("plum", session="chat-c")
    (path,) = (daemon.home / "memory" / "recalls").glob("*.jsonl")
    found, nothing = map(json.loads, path.read_text().splitlines())
    hit = {"kind": "record", "session": "chat-b", "epoch": 0, "record": 1, "time": "2026-09-20T14:02:00Z"}
    assert (found["session"], found["query"], found["hits"]) == ("chat-c", "pear", [hit])
    assert list(found) == ["time", "session", "query", "hits"]
    assert (nothing["query"], nothing["hits"]) == ("plum", [])


def test_a_damaged_index_stops_recall_alone_until_a_reindex(daemon: Daemon) -> None:
    daemon.call(add("a"))
    daemon.call(note("apple"))
    daemon.stop()
    for path in (daemon.home / "index").iterdir():
        path.write_bytes(b"garbage" * 1000)
    daemon.start()
    with pytest.raises(Fault) as fault:
        daemon.recall("apple")
    assert (fault.value.code, fault.value.runbook) == ("memory-index-damaged", "memory-index-damaged")
    daemon.updated("chat-b")
    assert daemon.call(note("pear")).text == "noted"
    assert "# memory.md (1 of" in daemon.block()
    assert "add" in daemon.admin("log")
    shown: MemoryShowReply = ask(daemon.owner, MemoryShow(), MemoryShowReply)
    assert "bxctl reindex" in shown.index.damaged_logs[0]
    assert ask(daemon.owner, Reindex(), Reindexed) == Reindexed(logs=0, records=0, notes=2)
    assert "apple" in daemon.recall("apple").text
    assert "pear" in daemon.recall("pear").text
