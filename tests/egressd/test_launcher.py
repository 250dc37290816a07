"""Closing a session's socket, where the disk refuses: its tunnels end all the same."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from egressd.desk.launcher import LauncherDesk
from egressd.doors import Door, Doors
from proto.messages.egress import EgressClose
from proto.messages.wire import Ok

pytestmark = pytest.mark.anyio


async def test_tunnels_end_also_when_the_file_of_the_door_cannot_be_removed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    nobody: Any = None
    async with anyio.create_task_group() as tasks:
        doors = Doors(home, home / "state", tasks, nobody)
        doors.reopen()
        desk = LauncherDesk(doors, nobody, ended.append, nobody)
        doors.open(Door(session="run-1", destination="up", auth="none", harness=None))
        with monkeypatch.context() as patched:
            patched.setattr(Path, "unlink", _refused)
            with pytest.raises(OSError, match="read-only"):
                await desk(EgressClose(session="run-1"), nobody)
        assert ended == ["run-1"]
        assert await desk(EgressClose(session="run-1"), nobody) == Ok()
        assert not doors.path("run-1").exists()
        tasks.cancel_scope.cancel()


def _refused(*_: Any, **__: Any) -> None:
    raise OSError("read-only")
