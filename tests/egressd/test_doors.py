"""The doors of sessions: opened, closed, kept over a restart, without a daemon around them."""

import errno
import socket
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd.doors import Door, Doors, Standing
from proto import forms
from proto.faults import Fault
from proto.role import raw
from proto.role.raw import Raw

pytestmark = pytest.mark.anyio

S = "run-one"
DOOR = Door(session=S, destination="up", auth="key", harness="claude")


class Hall:
    """What comes in by a door: says hello, and waits to be let out."""

    def __init__(self) -> None:
        self.came: list[Standing] = []
        self.out = anyio.Event()

    async def enter(self, standing: Standing, stream: Raw) -> None:
        self.came.append(standing)
        async with stream:
            await stream.send(b"hello")
            await self.out.wait()
            await stream.send(b"bye")


@asynccontextmanager
async def doors(home: Path, hall: Hall | None = None) -> AsyncIterator[Doors]:
    async with anyio.create_task_group() as tasks:
        found = Doors(home, home / "state", tasks, (hall or Hall()).enter)
        found.reopen()
        yield found
        tasks.cancel_scope.cancel()


async def _hello(path: Path) -> bytes:
    async with await anyio.connect_unix(path) as client:
        return await client.receive()


async def test_a_door_that_is_open_lets_in_and_is_for_nobody_else(home: Path) -> None:
    hall = Hall()
    async with doors(home, hall) as found:
        path = found.open(DOOR)
        assert path == home / "run" / "sessions" / S / "egress.sock"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert await _hello(path) == b"hello"
        assert hall.came[0].door == DOOR


async def test_the_same_door_once_more_is_answered_again_and_another_is_not(home: Path) -> None:
    async with doors(home) as found:
        path = found.open(DOOR)
        assert found.open(DOOR) == path
        others = ({"destination": "down"}, {"auth": "none"}, {"harness": None})
        for other in others:
            with pytest.raises(Fault) as refused:
                found.open(msgspec.structs.replace(DOOR, **other))
            assert refused.value.code == "session-exists"
        assert found.find(S) == DOOR
        assert await _hello(path) == b"hello"


async def test_what_is_inside_when_a_door_closes_goes_on_to_its_end(home: Path) -> None:
    hall = Hall()
    async with doors(home, hall) as found:
        path = found.open(DOOR)
        async with await anyio.connect_unix(path) as client:
            assert await client.receive() == b"hello"
            found.close(S)
            assert not path.parent.exists()
            assert hall.came[0].closed
            with pytest.raises(OSError):
                await anyio.connect_unix(path)
            hall.out.set()
            assert await client.receive() == b"bye"
        found.close(S)
        assert found.find(S) is None
        assert not list((home / "state" / "sessions").iterdir())


async def test_a_session_that_was_closed_can_be_opened_anew(home: Path) -> None:
    async with doors(home) as found:
        found.open(DOOR)
        found.close(S)
        other = msgspec.structs.replace(DOOR, destination="down")
        assert await _hello(found.open(other)) == b"hello"


async def test_the_next_egressd_opens_what_was_open_and_nothing_else(home: Path) -> None:
    async with doors(home) as first:
        paths = [first.open(msgspec.structs.replace(DOOR, session=f"run-{name}")) for name in "ab"]
        first.open(DOOR)
        first.close(S)
    kept = home / "state" / "sessions"
    (kept / "run-bad.json").write_bytes(b"{")
    (kept / "run-x.json").write_bytes((kept / "run-a.json").read_bytes())
    (kept / ".run-a.json.0123456789ab.tmp").write_bytes(b"")
    async with doors(home) as second:
        assert [await _hello(path) for path in paths] == [b"hello"] * 2
        found = {name: second.find(f"run-{name}") is not None for name in ("a", "b", "bad", "x", "one")}
        assert found == {"a": True, "b": True, "bad": False, "x": False, "one": False}
        assert not list(kept.glob(".*.tmp"))


async def test_a_door_that_cannot_be_opened_is_not_kept(home: Path) -> None:
    deep = home / ("d" * 90)
    async with doors(deep) as found:
        with pytest.raises(Fault) as refused:
            found.open(DOOR)
        assert refused.value.code == "socket-path-too-long"
        assert found.find(S) is None
        assert not list((deep / "state" / "sessions").iterdir())


async def test_a_door_that_is_not_on_disk_is_not_open(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    async with doors(home) as found:
        with monkeypatch.context() as patched:
            patched.setattr("egressd.doors.durable.replace", full)
            with pytest.raises(OSError):
                found.open(DOOR)
        assert found.find(S) is None
        assert not found.path(S).exists()
        assert await _hello(found.open(DOOR)) == b"hello"


async def test_a_door_that_could_not_be_forgotten_is_forgotten_when_asked_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    async with doors(home) as found:
        path = found.open(DOOR)
        with monkeypatch.context() as patched:
            patched.setattr("egressd.doors.Path.unlink", broken)
            with pytest.raises(OSError):
                found.close(S)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(OSError):
            await anyio.connect_unix(path)
        found.close(S)
        assert not path.parent.exists()
        assert not list((home / "state" / "sessions").iterdir())


async def test_what_another_put_in_the_place_of_a_socket_stays(home: Path) -> None:
    async with doors(home) as found:
        path = found.open(DOOR)
        path.unlink()
        path.write_text("mine")
        found.close(S)
        assert path.read_text() == "mine"


async def test_a_link_in_the_place_of_a_folder_leads_to_no_other_session(home: Path) -> None:
    folder = home / "run" / "sessions"
    async with doors(home) as found:
        other = found.open(msgspec.structs.replace(DOOR, session="run-two"))
        (folder / S).symlink_to(other.parent)
        with pytest.raises(Fault) as caught:
            found.open(DOOR)
        assert caught.value.code == "socket-not-ours"
        found.close(S)
        assert other.is_socket()
        assert (folder / S).is_symlink()


async def test_a_daemon_without_a_file_left_lets_in_again_when_there_is_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = raw.accept
    broken = [OSError(errno.EMFILE, "Too many open files"), OSError(errno.ENFILE, "Too many open files in system")]

    async def poor(listening: socket.socket) -> Raw:
        if broken:
            raise broken.pop()
        return await real(listening)

    monkeypatch.setattr(raw, "accept", poor)
    async with doors(home) as found:
        assert await _hello(found.open(DOOR)) == b"hello"
        assert not broken


@given(
    st.builds(
        Door,
        session=st.from_regex(forms.SESSION.pattern),
        destination=st.from_regex(forms.NAME.pattern),
        auth=st.sampled_from(["key", "none"]),
        harness=st.none() | st.text(),
    )
)
def test_a_door_is_read_back_as_it_was_kept(door: Door) -> None:
    assert msgspec.json.decode(msgspec.json.encode(door), type=Door) == door
