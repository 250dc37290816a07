"""The owner's files as brokerd sees them: what is not there at all is nothing, and anything else that is wrong is an error."""

import os
from pathlib import Path

import pytest

from brokerd.watch import Watched


def _reason(watched: Watched, name: str) -> str | None:
    content = watched.read()[name]
    assert isinstance(content, OSError)
    return content.strerror


def test_what_is_not_there_is_nothing(tmp_path: Path) -> None:
    assert Watched(tmp_path / "x", ".toml", 9).read() == {}
    assert Watched(tmp_path / "x.toml", None, 9).read() == {}


def test_a_link_to_a_file_or_a_folder_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real/a.toml").write_text("a")
    (tmp_path / "real/b.toml").symlink_to("a.toml")
    (tmp_path / "link").symlink_to("real")
    assert Watched(tmp_path / "link", ".toml", 9).read() == {"a.toml": b"a", "b.toml": b"a"}


@pytest.mark.parametrize("target", ["nowhere", "x.toml"])
def test_a_link_that_leads_nowhere_is_an_error_of_its_own(tmp_path: Path, target: str) -> None:
    (tmp_path / "x.toml").symlink_to(target)
    (tmp_path / "good.toml").write_text("a")
    assert _reason(Watched(tmp_path / "x.toml", None, 9), "x.toml")
    contents = Watched(tmp_path, ".toml", 9).read()
    assert contents["good.toml"] == b"a"
    assert isinstance(contents["x.toml"], OSError)


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f.toml")
    assert _reason(Watched(tmp_path, ".toml", 9), "f.toml") == "it is not a regular file"
    assert _reason(Watched(tmp_path / "f.toml", None, 9), "f.toml") == "it is not a regular file"


def test_a_file_may_be_so_long_and_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"123456789")
    watched = Watched(tmp_path, ".toml", 9)
    assert watched.read() == {"a.toml": b"123456789"}
    with path.open("wb") as file:
        file.truncate(1 << 40)  # all of it a hole: reading it would take hours
    assert _reason(watched, "a.toml") == "longer than 9 bytes"


def test_a_folder_of_more_files_than_anybody_writes_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "grants"
    folder.mkdir()
    for number in range(1001):
        (folder / f"{number}.toml").touch()
    assert _reason(Watched(folder, ".toml", 9), "grants") == "more than 1000 files"
