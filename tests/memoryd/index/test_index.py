import json
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.index import Counts, NoteEntry, logs, lookup, search
from memoryd.index import index as index_module
from memoryd.index.walk import LogProgress
from proto.faults import Fault
from proto.labels import PRIVATE, DataClass
from tests.memoryd.index.box import SECRET, TAINTED, Box, assistant, note, result, user, with_home

WORDS = ["launch", "moved", "Thursday", "東京タワー", "café", "the", "?", "猫", "notes", "http_fetch"]


def test_a_fact_is_found_from_another_session(box: Box) -> None:
    box.append("chat-1", user("the launch moved to Thursday"), assistant("Noted."))
    index = box.open()
    assert index.catch_up(box.sessions) == Counts(logs=1, records=2, notes=0)
    answer = index.recall("when is the launch?", 5)
    assert answer.text == (
        "[1] memory · session chat-1, 2026-09-20 14:02 UTC, the owner said · private\nthe launch moved to Thursday"
    )
    assert answer.label == PRIVATE
    assert [(hit.kind, hit.session, hit.epoch, hit.record, hit.time) for hit in answer.hits] == [
        ("record", "chat-1", 0, 0, "2026-09-20T14:02:00Z")
    ]


def test_nothing_found_says_so(box: Box) -> None:
    index = box.open()
    answer = index.recall("launch", 5)
    assert (answer.text, answer.label, answer.hits) == ('(no matches for "launch")', PRIVATE, ())


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("東京タワーの近くでiPhone15を買った", "東京タワー"),
        ("東京タワーの近くでiPhone15を買った", "iphone15"),
        ("東京タワーの近くでiPhone15を買った", "買"),
        ("我下个月要去成都出差", "成都"),
        ("고양이를 입양했어", "고양이"),
        ("책을 읽었다", "책"),
        ("ฉันชอบแมวมาก", "แมว"),
        ("Le café de Zoé à Besançon", "cafe ZOE besancon"),
        ("we went hiking", "go hike"),
        ("the cat", "what is the"),
        ("read_file was called", "read_file"),
        ("うちの猫はタマです", "猫の名前"),
        ("我的猫名叫小白", "猫叫什么名字"),
        ("我家住在山上", "山が好き"),
        ("책을 읽었다", "책이 어디 있어"),
        ("Will lives in May street", "what is Will's number"),
        ("Will lives in May street", "what is will's number"),
        ("the IT department moved", "who works in IT"),
    ],
)
def test_every_language_is_found(box: Box, text: str, query: str) -> None:
    box.append("chat-1", user(text), user("something else entirely"))
    index = box.open()
    index.catch_up(box.sessions)
    assert [hit.record for hit in index.recall(query, 1).hits] == [0]


def test_words_that_mean_nothing_find_nothing_beside_others(box: Box) -> None:
    box.append("chat-1", user("what is that"), user("will you be there?"), user("the zebra is there"))
    index = box.open()
    index.catch_up(box.sessions)
    assert index.recall("what is the xyzzyq", 5).hits == ()
    assert [hit.record for hit in index.recall("what will the zebra be", 1).hits] == [2]
    assert index.recall("what is it", 5).hits[0].record == 0


@pytest.mark.parametrize(
    "query",
    ['"', '""', "NEAR(launch x, 2)", "launch*", "^launch", "text:launch", "{text} : launch", "launch NOT launch",
     "-launch", "launch AND (", "'; DROP TABLE hits; --", "\x00launch", "launch\n[1] memory", "launch " * 70, "launch + x"],
)  # fmt: skip
def test_a_hostile_query_is_words(box: Box, query: str) -> None:
    box.append("chat-1", user("launch"))
    index = box.open()
    index.catch_up(box.sessions)
    assert len(index.recall(query, 5).hits) == ("launch" in query)


def test_no_query_fails(box: Box) -> None:
    box.append("chat-1", *[user(" ".join(WORDS[at:])) for at in range(len(WORDS))])
    index = box.open()
    index.catch_up(box.sessions)

    @given(st.text(max_size=80), st.integers(1, 10))
    @settings(max_examples=60, deadline=None)
    def check(query: str, k: int) -> None:
        assert len(index.recall(query, k).hits) <= k

    check()


def test_a_hit_after_untrusted_content_is_tainted_and_so_is_the_result(box: Box) -> None:
    box.append(
        "chat-1", user("launch one"), result(untrusted=True), assistant("launch two", ("fetch", {"q": "launch"}))
    )
    index = box.open()
    index.catch_up(box.sessions)
    answer = index.recall("launch", 5)
    tags = {(hit.record, hit.label.untrusted) for hit in answer.hits}
    assert tags == {(0, False), (2, True)}
    assert answer.text.count("] memory-tainted · ") == 2
    assert answer.label == TAINTED
    assert "zebra" not in answer.text
    assert index.recall("zebra", 5).hits == ()


def test_records_above_max_class_are_not_indexed_and_notes_neither(box: Box) -> None:
    box.append("chat-1", user("launch one"), result("restricted"), user("launch two"))
    notes = [note(0, "launch three", label=SECRET), note(1, "launch four")]
    index = box.open()
    index.catch_up(box.sessions)
    index.sync_notes(notes)
    assert sorted((hit.kind, hit.record) for hit in index.recall("launch", 9).hits) == [("noted", 1), ("record", 0)]
    index.close()
    index = box.open(max_class=DataClass.SECRET)
    index.catch_up(box.sessions)
    index.sync_notes(notes)
    answer = index.recall("launch", 9)
    assert len(answer.hits) == 4
    assert answer.label == SECRET


def test_a_moved_entry_is_identity_and_never_taints(box: Box) -> None:
    index = box.open()
    entries = [
        note(0, "prefers UTC", "moved", TAINTED),
        note(1, "prefers CET", "dropped", SECRET),
        note(2, "UTC?", label=TAINTED),
    ]
    assert index.sync_notes(entries) == 3
    answer = index.recall("prefers", 5)
    assert {line[4:] for line in answer.text.split("\n")[::2]} == {
        "identity · moved 2026-09-24 from memory.md · private",
        "memory · dropped 2026-09-24 from memory.md · private",
    }
    assert answer.label == PRIVATE
    assert index.recall("UTC", 5).label == TAINTED


def test_notes_are_reconciled_with_what_an_editor_left(box: Box) -> None:
    index = box.open()
    index.sync_notes([note(0, "alpha"), note(1, "beta"), note(2, "gamma")])
    assert index.sync_notes([note(0, "alpha"), note(1, "beta"), note(2, "gamma")]) == 0
    assert index.sync_notes([note(0, "alpha"), note(1, "beta"), note(2, "gamma"), note(3, "delta")]) == 1
    assert index.sync_notes([note(0, "alpha"), note(1, "gamma"), note(2, "delta")]) == 2
    assert [index.recall(word, 5).hits[0].record for word in ("alpha", "gamma", "delta")] == [0, 1, 2]
    assert index.recall("beta", 5).hits == ()
    assert index.sync_notes([]) == 0
    assert index.recall("alpha", 5).hits == ()


def test_what_a_note_costs_is_not_said_by_how_many_there_are(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    digested: list[int] = []

    def counted(entry: NoteEntry) -> bytes:
        digested.append(entry.position)
        return repr(entry).encode()

    monkeypatch.setattr(index_module, "_note_digest", counted)
    index = box.open()
    notes = [note(position, f"alpha {position}") for position in range(50)]
    index.sync_notes(notes)
    for position in range(50, 55):
        notes.append(note(position, f"alpha {position}"))
        digested.clear()
        assert index.sync_notes(list(notes)) == 1
        assert digested == [position]
    index.rebuild(box.sessions, notes)
    digested.clear()
    assert index.sync_notes([*notes[:54], note(54, "beta"), note(55, "gamma")]) == 2
    assert digested == [54, 55]
    assert [hit.record for hit in index.recall("beta", 5).hits] == [54]


@given(st.lists(st.lists(st.sampled_from(["launch", "moved", "notes"]), max_size=6), min_size=1, max_size=5))
@settings(max_examples=25, deadline=None)
def test_notes_held_are_the_notes_given_last(states: list[list[str]]) -> None:
    def check(box: Box) -> None:
        index = box.open()
        for number, texts in enumerate(states):
            entries = [note(position, text) for position, text in enumerate(texts)]
            index.sync_notes(entries)
            if number == 1:
                index.rebuild(box.sessions, entries)
            if number == 2:
                index.close()
                index = box.open()
        incremental = box.dump()
        index.rebuild(box.sessions, entries)
        assert box.dump() == incremental

    with_home(check)


def test_an_index_keeps_up_with_a_log(box: Box) -> None:
    index = box.open()
    assert index.session_updated("chat-1", box.sessions).records == 0
    box.append("chat-1", user("alpha"), b'{"kind":"user","ti')
    assert index.session_updated("chat-1", box.sessions) == Counts(logs=1, records=1, notes=0)
    assert index.session_updated("chat-1", box.sessions).records == 0
    box.append("chat-1", b'me":"2026-09-20T14:02:00Z","text":"beta"}\n')
    assert index.session_updated("chat-1", box.sessions).records == 1
    assert [hit.record for hit in index.recall("beta", 5).hits] == [1]
    index.close()
    box.append("chat-1", user("gamma"))
    index = box.open()
    assert index.catch_up(box.sessions).records == 1
    assert index.state() == Counts(logs=1, records=3, notes=0)


def test_nothing_after_a_damaged_line_is_indexed_until_it_is_mended(box: Box) -> None:
    box.append("chat-1", user("alpha"), b"damage\n", user("beta"))
    box.append("chat-2", user("gamma"))
    index = box.open()
    assert index.catch_up(box.sessions) == Counts(logs=2, records=2, notes=0, damaged=("chat-1",))
    assert index.recall("beta", 5).hits == ()
    assert index.state().damaged == ("chat-1",)
    assert index.rebuild(box.sessions, []) == Counts(logs=2, records=2, notes=0, damaged=("chat-1",))
    assert index.recall("beta", 5).hits == ()
    box.log("chat-1").write_bytes(box.log("chat-1").read_bytes().replace(b"damage\n", b""))
    assert index.session_updated("chat-1", box.sessions) == Counts(logs=1, records=1, notes=0)
    assert [hit.record for hit in index.recall("beta", 5).hits] == [1]


@pytest.mark.parametrize(
    "damage",
    [
        b"[" * 2000 + b"\n",
        b'{"a":' * 100_000 + b"\n",
        json.dumps(assistant(None, ("f", {"a": 0}))).encode().replace(b'{"a": 0}', b'{"a":' * 980 + b"0" + b"}" * 980)
        + b"\n",
        json.dumps({**user("beta"), "time": "0001-01-01T00:00:00+23:59"}).encode() + b"\n",
        json.dumps({**user("beta"), "time": "9999-12-31T23:59:59-23:59"}).encode() + b"\n",
        b"x" * 5000,
        b"x" * 5000 + b"\n",
    ],
)
def test_no_line_is_more_than_damage(box: Box, damage: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_LINE_BYTES", 5000 if damage.startswith(b"x") else 1 << 20)
    box.append("chat-1", user("alpha"), damage)
    index = box.open()
    expected = Counts(logs=1, records=1, notes=0, damaged=("chat-1",))
    assert index.session_updated("chat-1", box.sessions) == expected
    assert index.catch_up(box.sessions) == Counts(logs=1, records=0, notes=0, damaged=("chat-1",))
    assert index.rebuild(box.sessions, []) == expected
    assert [hit.record for hit in index.recall("alpha beta", 5).hits] == [0]


def test_a_log_is_read_in_pieces_of_bounded_size(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_PIECE_BYTES", 400)
    box.append("chat-1", *[user(f"alpha {number} " + "x" * 99) for number in range(20)])
    with logs.opened(box.sessions, "chat-1") as log:
        read = [len(piece.rows) for piece in logs.pieces(log, "chat-1", LogProgress())]
    assert sum(read) == 20
    assert max(read) <= 3
    index = box.open()
    assert index.catch_up(box.sessions).records == 20


def test_a_log_that_is_shorter_or_another_is_read_from_the_start(box: Box) -> None:
    box.append("chat-1", user("alpha"), result(untrusted=True), user("beta"))
    index = box.open()
    index.catch_up(box.sessions)
    box.log("chat-1").unlink()
    box.append("chat-1", user("gamma"))
    assert index.session_updated("chat-1", box.sessions).records == 1
    assert index.recall("alpha beta", 5).hits == ()
    assert index.recall("gamma", 5).label == PRIVATE
    box.log("chat-1").unlink()
    box.append("chat-1", *[user(f"delta {number}") for number in range(9)])
    index.catch_up(box.sessions)
    assert index.recall("gamma", 5).hits == ()
    assert len(index.recall("delta", 9).hits) == 9


def test_a_log_that_is_gone_is_forgotten(box: Box) -> None:
    box.append("chat-1", user("alpha"))
    index = box.open()
    index.catch_up(box.sessions)
    box.log("chat-1").unlink()
    index.catch_up(box.sessions)
    assert index.recall("alpha", 5).hits == ()
    assert index.state() == Counts(logs=0, records=0, notes=0)


def test_what_is_no_log_is_left_alone(box: Box) -> None:
    box.append("chat-1", user("alpha"))
    box.append("NOT-an-id", user("alpha"))
    os.makedirs(f"{box.sessions}/chat-2")
    os.mkfifo(f"{box.sessions}/chat-2/0.jsonl")
    os.makedirs(f"{box.sessions}/chat-3/0.jsonl")
    os.makedirs(f"{box.sessions}/chat-4")
    os.symlink("../chat-1/0.jsonl", f"{box.sessions}/chat-4/0.jsonl")
    index = box.open()
    assert index.catch_up(box.sessions).damaged == ("chat-2", "chat-3", "chat-4")
    assert len(index.recall("alpha", 5).hits) == 1


RECORDS = st.one_of(
    st.builds(user, st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), author=st.sampled_from([None, "bob"])),
    st.builds(assistant, st.none() | st.sampled_from(WORDS), st.tuples(st.sampled_from(WORDS), st.just({"q": "é"}))),
    st.builds(result, st.sampled_from(["public", "private", "secret"]), st.booleans()),
    st.just(b"damage\n"),
)


@given(st.lists(st.lists(RECORDS, max_size=8), min_size=1, max_size=3), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_reindex_equals_incremental(logs: list[list[Any]], rng: random.Random) -> None:
    with_home(lambda box: check_reindex(box, logs, rng))


TIMES = ["2026-09-20T14:02:00Z", "2026-09-20T14:02:30.5Z", "2026-09-20T16:03:00+02:00", "2026-09-21T00:00:00Z"]
TEXTS = ["standup moved", "standup moved", "standup moved again", "moved", "項目の状態"]


@given(st.integers(0, 1 << 32), st.integers(1, 6))
@settings(max_examples=12, deadline=None)
def test_what_is_answered_does_not_depend_on_when_it_came(seed: int, k: int) -> None:
    def check(box: Box) -> None:
        rng = random.Random(seed)
        index = box.open()
        notes: list[NoteEntry] = []
        for _ in range(rng.randint(8, 40)):
            session = f"chat-{rng.randint(0, 20)}"
            tainted = [result(untrusted=True)] * (rng.random() < 0.1)
            box.append(session, *tainted, {**user(rng.choice(TEXTS)), "time": rng.choice(TIMES)})
            index.session_updated(session, box.sessions)
            if rng.random() < 0.1:
                notes = [*notes, note(len(notes), rng.choice(TEXTS))]
                index.sync_notes(notes)
        queries = ["standup", "standup moved", "moved again", "standup again moved", "項目", "状態の項目"]
        answers = [index.recall(query, k) for query in queries]
        index.rebuild(box.sessions, notes)
        assert [index.recall(query, k) for query in queries] == answers

    for budget_rows in (2, 2_500):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lookup, "_BUDGET_ROWS", budget_rows)
            patch.setattr(lookup, "_NEWEST_ROWS", 3)
            patch.setattr(search, "_CANDIDATES", 2)
            with_home(check)


def check_reindex(box: Box, logs: list[list[Any]], rng: random.Random) -> None:
    contents = {
        f"chat-{number}": b"".join(r if isinstance(r, bytes) else json.dumps(r).encode() + b"\n" for r in records)
        for number, records in enumerate(logs)
    }
    cut = [(session, at) for session, content in contents.items() for at in range(len(content))]
    index = box.open()
    for session, at in sorted(rng.sample(cut, min(4, len(cut)))):
        box.append(session, b"")
        box.log(session).write_bytes(contents[session][:at])
        index.session_updated(session, box.sessions)
        index.sync_notes([note(0, "launch"), note(1, "café", "moved")][: rng.randint(0, 2)])
    for session, content in contents.items():
        box.append(session, b"")
        box.log(session).write_bytes(content)
    index.catch_up(box.sessions)
    notes = [note(0, "launch notes"), note(1, "猫", "dropped"), note(2, "moved", label=SECRET)]
    index.sync_notes(notes)
    incremental = box.dump()
    answers = [index.recall(word, 5) for word in WORDS]
    index.rebuild(box.sessions, notes)
    assert box.dump() == incremental
    assert [index.recall(word, 5) for word in WORDS] == answers


def test_recall_and_new_records_go_on_during_a_rebuild(box: Box) -> None:
    for number in range(40):
        box.append(f"chat-{number}", *[user(f"launch number {at}") for at in range(50)])
    index = box.open()
    index.catch_up(box.sessions)
    done = threading.Event()
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            while not done.is_set():
                assert len(index.recall("launch", 5).hits) == 5
        except BaseException as error:  # noqa: BLE001  (handed to the test's own thread)
            failures.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    box.append("chat-0", user("late"))
    index.session_updated("chat-0", box.sessions)
    counts = index.rebuild(box.sessions, [])
    done.set()
    asking.join()
    assert failures == []
    assert (counts.logs, counts.records) == (40, 2001)
    assert len(index.recall("late", 5).hits) == 1
    assert sorted(os.listdir(box.root / "index")) == ["memory.sqlite3", "memory.sqlite3-shm", "memory.sqlite3-wal"]


def test_the_file_is_the_owners_alone(box: Box) -> None:
    index = box.open()
    index.sync_notes([note(0, "alpha")])
    folder = Path(box.path).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


@pytest.mark.parametrize("damage", [b"not a database at all" * 400, b"SQLite format 3\x00" + b"\xff" * 9000])
def test_a_damaged_file_is_a_fault_until_it_is_rebuilt(box: Box, damage: bytes) -> None:
    box.append("chat-1", user("alpha"))
    os.makedirs(box.root / "index")
    Path(box.path).write_bytes(damage)
    index = box.open()
    for use in (
        lambda: index.recall("alpha", 5),
        lambda: index.catch_up(box.sessions),
        lambda: index.session_updated("chat-1", box.sessions),
        lambda: index.sync_notes([]),
        index.state,
    ):
        with pytest.raises(Fault) as caught:
            use()
        assert caught.value.code == "memory-index-damaged"
    assert index.rebuild(box.sessions, [note(0, "beta")]) == Counts(logs=1, records=1, notes=1)
    assert len(index.recall("alpha beta", 5).hits) == 2


def folder_of_somebody(path: Path) -> None:
    path.mkdir()
    (path / "kept").write_text("kept")


IN_THE_WAY: dict[str, Callable[[Path], None]] = {
    "folder": folder_of_somebody,
    "empty folder": Path.mkdir,
    "pipe": os.mkfifo,
    "link to nothing": lambda path: path.symlink_to("nothing"),
    "link to itself": lambda path: path.symlink_to(path.name),
}


@pytest.mark.parametrize("what", IN_THE_WAY)
@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal", ".new", ".new-wal"])
def test_whatever_is_in_the_way_of_the_file_is_put_aside_by_a_rebuild(box: Box, what: str, end: str) -> None:
    box.append("chat-1", user("alpha"))
    path = Path(box.path + end)
    path.parent.mkdir()
    IN_THE_WAY[what](path)
    index = box.open()
    if end == "":
        with pytest.raises(Fault, match="the index is damaged; rebuild it with bxctl reindex"):
            index.recall("alpha", 5)
        with pytest.raises(Fault):
            index.session_updated("chat-1", box.sessions)
    assert index.rebuild(box.sessions, []) == Counts(logs=1, records=1, notes=0)
    assert len(index.recall("alpha", 5).hits) == 1
    if what == "folder":
        assert [kept.read_text() for kept in path.parent.glob("*/kept")] == ["kept"]
    index.close()
    assert len(box.open().recall("alpha", 5).hits) == 1


def test_a_file_that_cannot_be_opened_is_a_fault_until_it_is_rebuilt(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    box.append("chat-1", user("alpha"))
    box.open().catch_up(box.sessions)
    box.indexes.pop().close()

    def refused(*_: Any, **__: Any) -> None:
        raise apsw.CantOpenError

    with monkeypatch.context() as patch:
        patch.setattr(apsw, "Connection", refused)
        index = box.open()
        with pytest.raises(Fault, match="the index is damaged"):
            index.recall("alpha", 5)
    assert index.rebuild(box.sessions, []).records == 1
    assert len(index.recall("alpha", 5).hits) == 1


def test_a_folder_that_cannot_be_used_is_no_damage(box: Box) -> None:
    (box.root / "index").write_text("")
    with pytest.raises(OSError, match="index"):
        box.open()


def test_damage_in_the_middle_of_the_file_is_a_fault(box: Box) -> None:
    box.append("chat-1", *[user(f"launch {number} " + "x" * 500) for number in range(200)])
    index = box.open()
    index.catch_up(box.sessions)
    index.close()
    size = os.path.getsize(box.path)
    with open(box.path, "r+b") as file:
        file.seek(4096 * 2)
        file.write(b"\xa5" * (size - 4096 * 2))
    index = box.open()
    with pytest.raises(Fault, match="the index is damaged; rebuild it with bxctl reindex"):
        index.recall("launch", 5)
    index.rebuild(box.sessions, [])
    assert len(index.recall("launch", 5).hits) == 5


@pytest.mark.parametrize("make", ["missing", "empty", "another program's", "another format"])
def test_a_missing_or_older_file_is_made_anew(box: Box, make: str) -> None:
    box.append("chat-1", user("alpha"))
    index = box.open()
    index.catch_up(box.sessions)
    index.close()
    if make in {"missing", "empty", "another program's"}:
        os.unlink(box.path)
    if make == "empty":
        Path(box.path).touch()
    if make in {"another program's", "another format"}:
        with apsw.Connection(box.path) as db:
            changed = make == "another format"
            db.execute("UPDATE settings SET value = '0' WHERE name = 'folding'" if changed else "CREATE TABLE x (y)")
        db.close()
    index = box.open()
    assert index.catch_up(box.sessions).records == 1
    assert len(index.recall("alpha", 5).hits) == 1


def test_the_schema_is_the_documents(box: Box) -> None:
    box.open()
    with apsw.Connection(box.path, flags=apsw.SQLITE_OPEN_READONLY) as db:
        found: list[Any] = db.execute(
            "SELECT name, sql FROM sqlite_schema WHERE name IN ('hits', 'sources', 'progress')"
        ).fetchall()
    assert dict(found) == {
        "hits": "CREATE VIRTUAL TABLE hits USING fts5(text, tokenize = 'unicode61')",
        "sources": "CREATE TABLE sources (rowid INTEGER PRIMARY KEY, kind TEXT, session TEXT, epoch INTEGER,\n"
        "  record INTEGER, time TEXT, role TEXT, class TEXT, untrusted INTEGER)",
        "progress": "CREATE TABLE progress (log TEXT PRIMARY KEY, records INTEGER)",
    }


def test_a_removed_text_is_in_no_byte_of_the_file(box: Box) -> None:
    index = box.open()
    index.sync_notes([note(0, "xylophonic"), note(1, "beta")])
    index.sync_notes([note(0, "beta")])
    index.close()
    assert b"xylophon" not in Path(box.path).read_bytes()


def test_an_answer_that_repeats_nothing_of_its_question_is_found(box: Box) -> None:
    box.append("chat-1", user("did we pick a day for the launch?"), assistant("Yes, Thursday."), user("good"))
    index = box.open()
    index.catch_up(box.sessions)
    assert [hit.record for hit in index.recall("launch", 5).hits] == [0, 1]


class Stopped(BaseException):
    """What a cancelled task raises is none of the usual errors."""


@pytest.fixture
def many(box: Box, monkeypatch: pytest.MonkeyPatch) -> Box:
    """Three logs, one of which is read in four pieces."""
    monkeypatch.setattr(logs, "_PIECE_RECORDS", 4)
    for session, count in (("chat-1", 3), ("chat-2", 13), ("chat-3", 3)):
        box.append(session, *(user(f"{session} apple {number}") for number in range(count)))
        os.utime(box.log(session), (1, int(session[-1])))
    return box


@pytest.mark.parametrize("breaths", [0, 1, 2, 3, 5, 6])
def test_catching_up_ends_where_it_is_told_to_and_goes_on_from_there(many: Box, breaths: int) -> None:
    left = iter(range(breaths))

    def breathe() -> None:
        if next(left, None) is None:
            raise Stopped

    index = many.open()
    with pytest.raises(Stopped):
        index.catch_up(many.sessions, breathe)
    read = index.state().records
    assert 0 < read < 19
    index.close()
    again = many.open()
    assert again.state().records == read
    assert again.catch_up(many.sessions).records == 19 - read
    caught_up = many.dump()
    again.rebuild(many.sessions, ())
    assert many.dump() == caught_up


def test_a_rebuild_that_is_ended_leaves_the_old_index(many: Box) -> None:
    index = many.open()
    index.catch_up(many.sessions)
    before = many.dump()
    many.append("chat-1", user("a plum"))
    calls = iter([None, None])

    def breathe() -> None:
        if next(calls, Stopped) is Stopped:
            raise Stopped

    with pytest.raises(Stopped):
        index.rebuild(many.sessions, (), breathe)
    assert many.dump() == before
    assert [path.name for path in Path(many.path).parent.glob("*.new*")] == []
    assert index.catch_up(many.sessions).records == 1


@pytest.mark.parametrize("asked", ["iPhone", "iPhone15", "iPhone 15", "iphone-15", "IPHONE15のケース"])
def test_a_word_with_a_number_is_found_however_it_is_written(box: Box, asked: str) -> None:
    texts = ["My iPhone15 fell", "My iPhone 15 fell", "My iPhone15を買った"]
    for number, text in enumerate(texts):
        box.append(f"chat-{number}", user(text))
    box.append("chat-9", user("A pear fell"))
    index = box.open()
    index.catch_up(box.sessions)
    found = index.recall(asked, 5)
    assert {hit.session for hit in found.hits} == {"chat-0", "chat-1", "chat-2"}


@pytest.mark.parametrize("first", [True, False])
def test_a_word_with_a_number_as_it_is_written_ranks_above_its_parts(box: Box, first: bool) -> None:
    texts = ["The mp3 is on the shelf", "Shelf 3 holds the mp of the garden"]
    for number, text in enumerate(texts if first else texts[::-1]):
        box.append(f"chat-{number}", user(text))
    index = box.open()
    index.catch_up(box.sessions)
    assert index.recall("where is the mp3?", 2).hits[0].session == f"chat-{0 if first else 1}"
