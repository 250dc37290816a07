"""Sessions and their labels: opened, resumed, lost, reopened; durable, and never lower."""

from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd.sessions import Sessions
from proto.faults import Fault
from proto.labels import PRIVATE, PUBLIC, DataClass, Label, covers, join
from proto.messages.broker import SessionClose, SessionReopen, SessionState
from proto.role.call import call
from tests.brokerd.running import Brokerd, S, label_of, opening, running

UNTRUSTED = Label(class_=DataClass.PRIVATE, untrusted=True)
SECRET = Label(class_=DataClass.SECRET, untrusted=False)
TOP = Label(class_=DataClass.SECRET, untrusted=True)
labels = st.builds(Label, class_=st.sampled_from(DataClass), untrusted=st.booleans())


async def _refused(brokerd: Brokerd, code: str, *, new: bool, session: str = S) -> None:
    with pytest.raises(Fault) as caught:
        await brokerd.open(session, new=new)
    assert caught.value.code == code


@pytest.mark.anyio
async def test_a_new_session_has_its_label_and_is_there_after_a_restart(home: Path) -> None:
    async with running(home) as brokerd:
        assert await brokerd.open(label=UNTRUSTED) == UNTRUSTED
        assert brokerd.stored_label() == UNTRUSTED
        await _refused(brokerd, "session-exists", new=True)
    async with running(home) as brokerd:
        await _refused(brokerd, "session-exists", new=True)
        assert await brokerd.open(label=PRIVATE, new=False) == UNTRUSTED


@pytest.mark.anyio
async def test_resuming_joins_the_given_label_and_tells_egressd(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open(label=UNTRUSTED)
        assert await brokerd.open(label=SECRET, new=False) == TOP
        assert brokerd.stored_label() == TOP
        assert [label_of_notice.untrusted for label_of_notice in brokerd.egressd.notices] == [True]


@pytest.mark.anyio
async def test_an_unknown_session_cannot_be_resumed_and_the_owner_reopens_it_as_secret_and_untrusted(
    home: Path,
) -> None:
    async with running(home) as brokerd:
        await _refused(brokerd, "session-state-lost", new=False)
        state = await brokerd.owner(SessionReopen(session=S), SessionState)
        assert label_of(state) == TOP
        assert await brokerd.open(new=False) == TOP
        with pytest.raises(Fault) as caught:
            await brokerd.owner(SessionReopen(session=S), SessionState)
        assert caught.value.code == "session-exists"


@pytest.mark.anyio
@pytest.mark.parametrize("damage", [b"", b"{", b'{"class":"public"}', b"\xff", b'{"session":"chat-2"}'])
async def test_a_state_that_cannot_be_read_is_lost_and_never_overwritten_in_silence(home: Path, damage: bytes) -> None:
    async with running(home) as brokerd:
        await brokerd.open(label=UNTRUSTED)
    path = home / f"state/brokerd/sessions/{S}.json"
    path.write_bytes(damage)
    async with running(home) as brokerd:
        await _refused(brokerd, "session-state-lost", new=False)
        await _refused(brokerd, "session-exists", new=True)
        reply = await brokerd.tool("recall", {"query": "x"})
        assert not reply.ok
        assert path.read_bytes() == damage
        await brokerd.owner(SessionReopen(session=S), SessionState)
        assert path.with_suffix(".damaged").read_bytes() == damage
        assert brokerd.stored_label() == TOP


@pytest.mark.anyio
async def test_a_file_of_another_session_is_not_this_ones_label(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open(label=TOP)
        await brokerd.open("chat-2")
    folder = home / "state/brokerd/sessions"
    (folder / f"{S}.json").write_bytes((folder / "chat-2.json").read_bytes())
    async with running(home) as brokerd:
        await _refused(brokerd, "session-state-lost", new=False)


@pytest.mark.anyio
async def test_a_closed_session_gives_its_final_label_and_takes_nothing_until_it_is_resumed(home: Path) -> None:
    async with running(home) as brokerd:
        await brokerd.open(label=UNTRUSTED)
        state = await call(brokerd.loop, SessionClose(session=S), SessionState)
        assert label_of(state) == UNTRUSTED
        for request in (SessionClose(session=S), SessionClose(session="chat-never")):
            with pytest.raises(Fault) as caught:
                await call(brokerd.loop, request, SessionState)
            assert caught.value.code == "session-not-open"
        with pytest.raises(Fault) as caught:
            await brokerd.raise_label(TOP)
        assert caught.value.code == "session-not-open"
        assert not (await brokerd.tool("recall", {"query": "x"})).ok
        assert await brokerd.open(new=False) == UNTRUSTED
        assert (await brokerd.tool("recall", {"query": "x"})).ok


@pytest.mark.anyio
async def test_closing_waits_for_the_call_that_runs(home: Path) -> None:
    async with running(home) as brokerd:
        brokerd.memoryd.gate = anyio.Event()
        brokerd.memoryd.label = TOP
        await brokerd.open()
        found: list[Label] = []

        async def close() -> None:
            found.append(label_of(await call(brokerd.loop, SessionClose(session=S), SessionState)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(brokerd.tool, "recall", {"query": "x"})
            await anyio.sleep(0.2)
            tasks.start_soon(close)
            await anyio.sleep(0.1)
            assert found == []
            brokerd.memoryd.gate.set()
        assert found == [TOP]


@settings(max_examples=60)
@given(first=labels, raised=st.lists(labels, max_size=6))
def test_a_label_is_the_join_of_all_that_was_joined_and_each_step_is_on_disk(
    tmp_path: Path, first: Label, raised: list[Label]
) -> None:
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    sessions = Sessions(folder)
    sessions.open()
    sessions.begin(opening(label=first), "loop-broker", "2026-01-01T00:00:00Z")
    expected = first
    for label in raised:
        before, expected = expected, join(expected, label)
        after, rose = sessions.raise_label(S, label)
        assert (after, rose) == (expected, expected != before)
        assert covers(after, before)
        again = Sessions(folder)
        again.open()
        found = again.find(S)
        assert found is not None
        assert found.label == expected


@pytest.mark.parametrize("given_label", [PUBLIC, PRIVATE])
def test_a_label_whose_writing_failed_is_in_force_and_is_written_the_next_time(
    tmp_path: Path, given_label: Label
) -> None:
    folder = tmp_path / "sessions"
    sessions = Sessions(folder)
    sessions.open()
    sessions.begin(opening(label=PRIVATE), "loop-broker", "2026-01-01T00:00:00Z")
    folder.rename(tmp_path / "away")
    with pytest.raises(OSError):
        sessions.raise_label(S, TOP)
    found = sessions.find(S)
    assert found is not None
    assert found.label == TOP
    (tmp_path / "away").rename(folder)
    assert sessions.raise_label(S, given_label) == (TOP, True)
    again = Sessions(folder)
    again.open()
    stored = again.find(S)
    assert stored is not None
    assert stored.label == TOP


@pytest.mark.anyio
async def test_labels_never_fall_and_every_answer_is_covered_by_the_one_on_disk(home: Path) -> None:
    """Random calls and labels at once, over the sockets: what was answered is never above what is stored."""
    async with running(home) as brokerd:
        brokerd.grant("web", hosts=["example.org"], untrusted=True, max_taint="secret")
        brokerd.egressd.page("https://example.org/")
        await brokerd.open(label=PUBLIC)
        seen = [PUBLIC]

        def note(label: Label) -> None:
            assert covers(brokerd.stored_label(), label)
            assert covers(brokerd.stored_label(), seen[-1])
            seen.append(brokerd.stored_label())

        async def recalls(label: Label) -> None:
            brokerd.memoryd.label = label
            note(label_of(await brokerd.tool("recall", {"query": "x"})))

        async def raises(label: Label) -> None:
            note(await brokerd.raise_label(label))

        async def fetches() -> None:
            note(label_of(await brokerd.fetch("https://example.org/")))

        async with anyio.create_task_group() as tasks:
            for number in range(30):
                label = (PUBLIC, PRIVATE, UNTRUSTED, SECRET)[number % 4 if number > 15 else number % 2]
                tasks.start_soon(recalls, label)
                tasks.start_soon(raises, label)
                if number == 20:
                    tasks.start_soon(fetches)
        assert brokerd.stored_label() == TOP
