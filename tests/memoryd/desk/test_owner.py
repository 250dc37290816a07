"""What the owner is answered, over the real socket of a real daemon."""

import threading

import pytest

from proto.faults import Fault
from proto.messages.memory import (
    Edits,
    EditsReply,
    MemoryShow,
    MemoryShowReply,
    PendingEdits,
    PendingEditsReply,
    Reindex,
    Reindexed,
)
from proto.messages.wire import Verify, VerifyReply
from proto.role.ask import ask
from tests.memoryd.box import UNTRUSTED, add, note, remove
from tests.memoryd.daemon import Daemon, user

pytestmark = pytest.mark.measured


def _refused(daemon: Daemon, command: str, arg: str) -> str:
    with pytest.raises(Fault) as fault:
        daemon.admin(command, arg)
    assert fault.value.code == "memory-refused"
    return fault.value.message


def test_log_and_undo(daemon: Daemon) -> None:
    daemon.call(add("a"))
    daemon.call(note("n"))
    one, two = (line["id"] for line in daemon.edits())
    assert [row.split()[0] for row in daemon.admin("log").splitlines()] == ["id", one, two]
    assert daemon.admin("log", "1").splitlines()[-1].split()[0] == two
    assert daemon.admin("undo", one).startswith(f"{one} is undone as ")
    assert _refused(daemon, "undo", two) == "notes.md is append-only; edit it by hand"
    assert _refused(daemon, "undo", one).startswith(f"{one} is not the latest edit of memory.md; ")
    assert _refused(daemon, "undo", "x") == "there is no edit x; bxctl memory log lists them"
    assert _refused(daemon, "log", "x") == "log takes the number of edits to show"
    assert _refused(daemon, "pending", "x") == "pending takes no argument"
    assert daemon.admin("log", "0") == "no edits shown: 0 were asked for"
    assert (daemon.home / "memory" / "memory.md").read_text() == ""


def test_review(daemon: Daemon) -> None:
    daemon.stop()
    config = daemon.home / "memoryd.toml"
    config.write_text("[memory]\nreview = true\n")
    reviewed = Daemon(daemon.home, "--config", str(config), "--home", str(daemon.home)).start()
    try:
        for text in ("a", "b"):
            assert "waits for the owner as" in reviewed.call(add(text)).text
        reply: PendingEditsReply = ask(reviewed.owner, PendingEdits(), PendingEditsReply)
        a, b = (edit["id"] for edit in reply.edits)
        assert [line.split()[0] for line in reviewed.admin("pending").splitlines()[::2]] == [a, b]
        assert reviewed.admin("accept", b).startswith(f"{b} is accepted as ")
        assert reviewed.admin("reject", a).startswith(f"{a} is rejected; ")
        assert _refused(reviewed, "accept", a).startswith(f"no write waits as {a}; ")
        assert reviewed.admin("pending") == "no writes wait for the owner"
        assert "\nb\n" in reviewed.block()
        # The session is told again what it was told, though the owner has decided since.
        assert "waits for the owner as" in reviewed.call(add("a"), call="call 1").text
    finally:
        reviewed.kill()


def test_edits(daemon: Daemon) -> None:
    for number in range(3):
        daemon.call(note(f"n{number}"))
    lines = daemon.edits()
    assert ask(daemon.owner, Edits(), EditsReply) == EditsReply(edits=lines)
    assert ask(daemon.owner, Edits(last=1), EditsReply) == EditsReply(edits=lines[2:])
    assert ask(daemon.owner, Edits(id=lines[1]["id"]), EditsReply) == EditsReply(edits=lines[1:2])
    with pytest.raises(Fault, match="edits"):
        ask(daemon.owner, Edits(id="x"), EditsReply)


def test_sessions_that_are_no_folder_are_named(daemon: Daemon) -> None:
    daemon.call(note("apple"))
    sessions = daemon.home / "sessions"
    sessions.write_text("in the way")
    daemon.updated("chat-b")
    with pytest.raises(Fault) as fault:
        ask(daemon.owner, Reindex(), Reindexed)
    assert (fault.value.code, fault.value.message) == (
        "memory-unavailable",
        f"{sessions} cannot be read: Not a directory",
    )
    assert "apple" in daemon.recall("apple").text
    daemon.restart()
    assert "apple" in daemon.recall("apple").text
    sessions.unlink()
    assert ask(daemon.owner, Reindex(), Reindexed).notes == 1


def test_notes_without_a_header_are_shown(daemon: Daemon) -> None:
    (daemon.home / "memory" / "notes.md").write_text("§ mine\nlychee\n")
    shown: MemoryShowReply = ask(daemon.owner, MemoryShow(), MemoryShowReply)
    assert [(note.number, note.reason, note.text) for note in shown.unread_notes] == [
        (1, "since it has no header line that can be read", "lychee")
    ]
    _, said = daemon.stop()
    assert '"number": 1, "file": "notes.md", "event": "note-without-header"' in said


def test_show_tells_what_a_session_is_told_and_what_is_kept_from_it(daemon: Daemon) -> None:
    memory = daemon.home / "memory"
    (memory / "memory.md").write_text("good\n§\nbad\u202e\n")
    (memory / "user.md").write_bytes(b"\xff")
    daemon.log("chat-b", user("apple"))
    daemon.updated("chat-b")
    daemon.call(note("n"))
    shown: MemoryShowReply = ask(daemon.owner, MemoryShow(), MemoryShowReply)
    assert [(file.file, file.limit, file.problem) for file in shown.files] == [
        ("soul.md", 4000, None),
        ("memory.md", 2200, None),
        ("user.md", 1375, "it is not UTF-8 (byte 1)"),
    ]
    assert shown.files[1].text == "good\n§\nbad\u202e"
    assert shown.files[1].chars == 11
    (left,) = shown.left_out
    assert (left.file, left.number, left.rule, left.entry) == ("memory.md", 2, 2, "bad\u202e")
    assert left.reason == "an invisible or direction-changing character"
    assert (shown.index.logs, shown.index.records, shown.index.notes, shown.index.damaged_logs) == (1, 1, 1, [])
    assert shown.review is False
    assert "memory.md, entry 2: an invisible or direction-changing character (rule 2): bad\\u{202e}" in daemon.admin(
        "log"
    )


def test_verify_finds_what_was_changed_and_the_daemon_goes_on(daemon: Daemon) -> None:
    assert ask(daemon.owner, Verify(), VerifyReply).journals == []
    daemon.call(add("a"))
    daemon.call(remove("a"))
    (state,) = ask(daemon.owner, Verify(), VerifyReply).journals
    lines = daemon.edits()
    name = f"memory/edits/{lines[0]['id'][:7]}.jsonl"
    assert (state.path, state.lines, state.head, state.first_bad) == (name, 2, lines[1]["hash"], None)
    daemon.stop()
    path = daemon.home / name
    path.write_text(path.read_text().replace('"add"', '"note"'))
    daemon.start()
    (state,) = ask(daemon.owner, Verify(), VerifyReply).journals
    assert (state.lines, state.first_bad) == (3, 1)
    assert daemon.call(add("b")).ok
    code, said = daemon.stop()
    assert code == 0
    assert '"chain-break"' in said
    assert '"journal-damaged"' in said


def test_reindex_while_recall_goes_on(daemon: Daemon) -> None:
    for session in range(20):
        daemon.log(f"chat-s{session}", *(user(f"apple {number} of {session}") for number in range(50)))
        daemon.updated(f"chat-s{session}")
    daemon.call(note("apple noted"), UNTRUSTED)
    before = daemon.recall("apple noted", k=10).text
    answers: list[str] = []
    stop = threading.Event()

    def ask_again() -> None:
        while not stop.is_set():
            answers.append(daemon.recall("apple noted", k=10).text)

    asking = threading.Thread(target=ask_again)
    asking.start()
    for _ in range(3):
        assert ask(daemon.owner, Reindex(), Reindexed) == Reindexed(logs=20, records=1000, notes=1)
    stop.set()
    asking.join()
    assert answers
    assert set(answers) == {before}
