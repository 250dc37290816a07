"""A session's files: what is written, what a crash may leave, what damage does."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopd.session import summary
from loopd.session.prompt import prefix
from loopd.session.records import Assistant, Call, Record, ToolResult, User
from loopd.session.store import Store
from proto.faults import Fault
from proto.labels import DataClass
from tests.loopd.logs import SESSION, TIME, baseline, logs

USER = User(time=TIME, text="hi", author=None)
ANSWER = Assistant(time=TIME, content="hello", tool_calls=[])
ASKS = Assistant(time=TIME, content=None, tool_calls=[Call("c", "clock", {})])
RESULT = ToolResult(time=TIME, call="c", name="clock", content="x", class_=DataClass.PUBLIC, untrusted=False)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "sessions")


def _log(tmp_path: Path) -> Path:
    return tmp_path / "sessions" / SESSION / "0.jsonl"


def test_a_session_comes_back_as_it_was(tmp_path: Path, store: Store) -> None:
    store.create(baseline("# soul.md\n記憶"))
    assert store.load(SESSION).records == []
    store.append(SESSION, USER)
    store.append(SESSION, ANSWER)
    loaded = Store(tmp_path / "sessions").load(SESSION)
    assert (loaded.baseline, loaded.records) == (baseline("# soul.md\n記憶"), [USER, ANSWER])
    assert _log(tmp_path).read_text().splitlines()[0] == (
        '{"kind":"user","time":"2026-09-24T21:02:03Z","text":"hi","author":null}'
    )
    assert _log(tmp_path).stat().st_mode & 0o777 == 0o600
    assert _log(tmp_path).parent.stat().st_mode & 0o777 == 0o700


def test_a_session_that_was_only_half_made_is_swept_away(tmp_path: Path, store: Store) -> None:
    (tmp_path / "sessions" / f".{SESSION}.tmp").mkdir()
    (tmp_path / "sessions" / f".{SESSION}.tmp" / "0.baseline.json").touch()
    assert store.ids() == []
    Store(tmp_path / "sessions")
    assert list((tmp_path / "sessions").iterdir()) == []


def test_what_nobody_made_here_is_left_where_it_is(tmp_path: Path) -> None:
    sessions, elsewhere = tmp_path / "sessions", tmp_path / "elsewhere"
    half = f".{SESSION}.tmp"
    for folder in (elsewhere, sessions / ".notes.tmp", sessions / half):
        folder.mkdir(parents=True)
        (folder / "mine.txt").write_text("mine")
    (sessions / ".x.tmp").write_text("mine")
    (sessions / ".chat-file.tmp").write_text("mine")
    (sessions / ".chat-link.tmp").symlink_to(elsewhere)
    (sessions / ".chat-nowhere.tmp").symlink_to(tmp_path / "nowhere")
    (sessions / ".chat-deep.tmp" / "0.baseline.json").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    assert Store(sessions).ids() == []
    assert sorted(tmp_path.rglob("*")) == before
    (sessions / half / "mine.txt").rename(sessions / half / ".0.baseline.json.0a1b2c3d4e5f.tmp")
    Store(sessions)
    assert not (sessions / half).exists()


def test_a_torn_last_line_is_cut_and_nothing_before_it(tmp_path: Path, store: Store) -> None:
    store.create(baseline())
    store.append(SESSION, USER, ANSWER)
    whole = _log(tmp_path).read_bytes()
    for cut in range(1, 30):
        _log(tmp_path).write_bytes(whole + whole[:cut])
        assert store.load(SESSION).records == [USER, ANSWER]
        assert _log(tmp_path).read_bytes() == whole


@pytest.mark.parametrize(
    ("line", "place"),
    [
        (b"not json\n", "record 1 of 0.jsonl: not a JSON object"),
        (b"\n", "record 1 of 0.jsonl"),
        (b'{"kind":"user"}\n', "record 1 of 0.jsonl"),
        (b"\xff\xfe\n", "record 1 of 0.jsonl"),
        (
            b'{"kind":"tool_result","time":"t","call":"c","name":"n","content":"","class":"public","untrusted":false}\n',
            "record 1 is",
        ),
    ],
)
def test_a_damaged_line_is_refused_and_the_file_untouched(
    tmp_path: Path, store: Store, line: bytes, place: str
) -> None:
    store.create(baseline())
    store.append(SESSION, USER)
    data = _log(tmp_path).read_bytes() + line + b'{"kind":"torn'
    _log(tmp_path).write_bytes(data)
    with pytest.raises(Fault) as caught:
        store.load(SESSION)
    assert caught.value.code == "session-damaged"
    assert caught.value.message.startswith(f"the log of {SESSION} is damaged and was left as it is: ")
    assert place in caught.value.message
    assert _log(tmp_path).read_bytes() == data


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b"[1]"])
def test_a_damaged_baseline_is_refused(tmp_path: Path, store: Store, data: bytes) -> None:
    store.create(baseline())
    (tmp_path / "sessions" / SESSION / "0.baseline.json").write_bytes(data)
    with pytest.raises(Fault) as caught:
        store.load(SESSION)
    assert caught.value.code == "session-damaged"


def test_an_unknown_session_is_told(store: Store) -> None:
    with pytest.raises(Fault) as caught:
        store.load(SESSION)
    assert caught.value.code == "session-unknown"


def test_what_is_no_session_is_not_listed(tmp_path: Path, store: Store) -> None:
    store.create(baseline())
    (tmp_path / "sessions" / "lost+found").mkdir()
    (tmp_path / "sessions" / "chat-file").touch()
    assert store.ids() == [SESSION]


@settings(max_examples=40)
@given(logs())
def test_the_end_of_a_log_says_whether_it_is_finished(tmp_path: Path, records: list[Record]) -> None:
    store = Store(tmp_path / "sessions")
    if not store.exists(SESSION):
        store.create(baseline())
    _log(tmp_path).unlink(missing_ok=True)
    store.append(SESSION, *records)
    assert store.is_finished(SESSION) is store.load(SESSION).position.answered


@settings(max_examples=80)
@given(logs(turns=2), st.data())
def test_whatever_stands_in_a_log_is_records_or_damage(
    tmp_path: Path, records: list[Record], data: st.DataObject
) -> None:
    store = Store(tmp_path / "sessions")
    if not store.exists(SESSION):
        store.create(baseline())
    _log(tmp_path).unlink(missing_ok=True)
    store.append(SESSION, *records, USER)
    raw = bytearray(_log(tmp_path).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.integers(0, len(raw)))
        raw[begin : begin + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=8))
    _log(tmp_path).write_bytes(raw)
    try:
        loaded = store.load(SESSION)
    except Fault as fault:
        # The file is as it was.
        assert (fault.code, _log(tmp_path).read_bytes()) == ("session-damaged", bytes(raw))  # noqa: PT017
    else:
        prefix(loaded.baseline, loaded.records)
        assert bytes(raw).startswith(_log(tmp_path).read_bytes())
    store.is_finished(SESSION)
    summary.line(store, SESSION)
    summary.records(store, SESSION, 0)


def test_a_torn_or_long_end_is_looked_at_whole(tmp_path: Path, store: Store) -> None:
    store.create(baseline())
    store.append(SESSION, USER, Assistant(time=TIME, content="x" * 200_000, tool_calls=[]))
    assert store.is_finished(SESSION)
    with _log(tmp_path).open("ab") as file:
        file.write(b'{"kind":"us')
    assert not store.is_finished(SESSION)


def test_what_cannot_be_written_is_a_fault(tmp_path: Path, store: Store) -> None:
    (tmp_path / "sessions" / f".{SESSION}.tmp").touch()
    with pytest.raises(Fault) as caught:
        store.create(baseline())
    assert caught.value.message == f"the session {SESSION} cannot be written: File exists"
    (tmp_path / "sessions" / f".{SESSION}.tmp").unlink()
    store.create(baseline())
    _log(tmp_path).mkdir()
    with pytest.raises(Fault) as caught:
        store.append(SESSION, USER)
    assert (caught.value.code, caught.value.message) == (
        "internal",
        f"the log of {SESSION} cannot be written: Is a directory",
    )
