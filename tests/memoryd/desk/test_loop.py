"""What loopd is answered, over the real socket of a real daemon."""

import pytest

from proto.faults import Fault
from proto.messages.memory import MemoryShow, MemoryShowReply, Reindex, Reindexed
from proto.messages.wire import Ok, Ping
from proto.role.ask import ask
from tests.memoryd.box import UNTRUSTED, add
from tests.memoryd.daemon import Daemon, assistant, result, user

pytestmark = pytest.mark.measured


def test_a_write_reaches_the_block_of_the_next_session(daemon: Daemon) -> None:
    before = daemon.block()
    daemon.call(add("the launch moved"))
    daemon.call(add("planted"), UNTRUSTED)
    assert daemon.block() == before.replace(
        "# memory.md (0 of 2,200 characters)\n(empty)", "# memory.md (16 of 2,200 characters)\nthe launch moved"
    )


def test_a_block_that_cannot_be_served_is_a_fault_with_its_reason(daemon: Daemon) -> None:
    (daemon.home / "memory" / "user.md").write_text("x" * 1376)
    with pytest.raises(Fault) as fault:
        daemon.block()
    assert (fault.value.code, fault.value.runbook) == ("memory-unavailable", "memory-unavailable")
    assert fault.value.message == "user.md cannot be used: it is over its limit: 1,376 of 1,375 characters"


def test_logs_are_read_when_they_grow_and_at_start(daemon: Daemon) -> None:
    daemon.updated("chat-nobody")
    daemon.log("chat-b", user("apple one"))
    assert daemon.recall("apple").text.startswith("(no matches")
    daemon.updated("chat-b")
    assert "apple one" in daemon.recall("apple").text
    daemon.stop()
    daemon.log("chat-b", result("private", untrusted=True), assistant("apple two"))
    daemon.log("chat-c", user("apple three"))
    daemon.start()
    answer = daemon.recall("apple")
    assert "apple two" in answer.text
    assert "apple three" in answer.text
    assert answer.untrusted


def test_what_is_above_the_highest_class_is_not_indexed(daemon: Daemon) -> None:
    daemon.log("chat-b", user("apple"), result("secret", untrusted=False), assistant("pear"))
    daemon.updated("chat-b")
    assert "apple" in daemon.recall("apple").text
    assert daemon.recall("pear").text == '(no matches for "pear")'


def test_a_log_with_a_damaged_line_is_read_up_to_it(daemon: Daemon) -> None:
    daemon.log("chat-b", user("apple"), {"kind": "nonsense"}, user("pear"))
    daemon.log("chat-c", user("plum"))
    for session in ("chat-b", "chat-c"):
        daemon.updated(session)
    for _ in range(2):
        assert "apple" in daemon.recall("apple").text
        assert daemon.recall("pear").text.startswith("(no matches")
        assert "plum" in daemon.recall("plum").text
        shown: MemoryShowReply = ask(daemon.owner, MemoryShow(), MemoryShowReply)
        assert shown.index.damaged_logs == ["chat-b"]
        ask(daemon.owner, Reindex(), Reindexed)


def test_the_daemon_never_writes_sessions(daemon: Daemon) -> None:
    daemon.log("chat-b", user("apple"))
    path = daemon.home / "sessions" / "chat-b" / "0.jsonl"
    before = (path.read_bytes(), path.stat().st_mtime_ns, sorted(path.parent.iterdir()))
    daemon.updated("chat-b")
    daemon.restart()
    ask(daemon.owner, Reindex(), Reindexed)
    ask(daemon.loop, Ping(), Ok)
    assert (path.read_bytes(), path.stat().st_mtime_ns, sorted(path.parent.iterdir())) == before
