"""loopd put together: a start that cannot be is told in words."""

from pathlib import Path

import pytest

from loopd import app
from proto.faults import Fault
from proto.role.main import Arguments

pytestmark = pytest.mark.anyio


async def _failed(home: Path) -> Fault:
    with pytest.raises(Fault) as caught:
        await app.run(Arguments(None, str(home)), lambda: pytest.fail("it was ready"))
    assert caught.value.code == "start-failed"
    return caught.value


async def test_a_file_in_the_place_of_a_folder_is_named(home: Path) -> None:
    (home / "sessions").write_text("")
    assert (await _failed(home)).message == f"{home}/sessions: File exists"


async def test_an_error_that_names_no_file_is_told_too(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(folder: Path) -> None:
        raise OSError("cannot do this")

    monkeypatch.setattr(app, "Store", fails)
    assert (await _failed(home)).message == f"{home}: cannot do this"
