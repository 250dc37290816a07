"""Reading files that an editor has its hands on, and swapping one in."""

import os
import threading
import time
from pathlib import Path

import pytest

from memoryd import files
from memoryd.files import Unreadable


def _reason(path: Path, limit_bytes: int = 100) -> str:
    with pytest.raises(Unreadable) as unreadable:
        files.read(path, limit_bytes)
    return str(unreadable.value)


def test_what_is_not_a_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("secret")
    (tmp_path / "link").symlink_to("target")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").write_bytes(b"x" * 101)
    assert _reason(tmp_path / "link") == "it is a symbolic link, which is not followed"
    assert _reason(tmp_path / "fifo") == "it is not a regular file"
    assert _reason(tmp_path) == "it is not a regular file"
    assert _reason(tmp_path / "large") == "it has 101 bytes, more than 100"
    assert _reason(tmp_path / "missing") == "it is missing; memoryd makes an empty one when it starts"


def test_a_file_that_is_moved_away_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    def save() -> None:
        time.sleep(0.02)
        (tmp_path / "a").write_text("new")

    saving = threading.Thread(target=save)
    saving.start()
    assert files.read(tmp_path / "a", 100) == b"new"
    saving.join()


def test_a_file_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    opened, go_on = threading.Event(), threading.Event()

    def save() -> None:
        with path.open("w") as file:
            opened.set()
            go_on.wait()
            file.write("half and")
            file.flush()
            time.sleep(0.02)
            file.write(" half")

    saving = threading.Thread(target=save)
    saving.start()
    opened.wait()
    threading.Timer(0.02, go_on.set).start()
    assert files.read(path, 100) == b"half and half"
    saving.join()


def test_a_program_that_keeps_a_file_open_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_PATIENCE_S", 0.01)
    path = tmp_path / "a"
    with path.open("w") as file:
        file.write("so far")
        file.flush()
        assert files.read(path, 100) == b"so far"


def test_exchange_swaps_at_once(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("1")
    other.write_text("2")
    files.exchange(one, other)
    assert (one.read_text(), other.read_text()) == ("2", "1")
    with pytest.raises(FileNotFoundError):
        files.exchange(one, tmp_path / "missing")


def test_create_never_overwrites(tmp_path: Path) -> None:
    assert files.create(tmp_path / "a", b"1")
    assert not files.create(tmp_path / "a", b"2")
    (tmp_path / "link").symlink_to("nowhere")
    assert not files.create(tmp_path / "link", b"3")
    assert (tmp_path / "a").read_bytes() == b"1"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "link"]


def test_append_says_whether_the_file_was_replaced_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.write_text("1")
    assert files.append(path, b"2")
    fsync = os.fsync

    def replaced(handle: int) -> None:
        fsync(handle)
        (tmp_path / "b").write_text("editor")
        (tmp_path / "b").rename(path)

    monkeypatch.setattr(os, "fsync", replaced)
    assert not files.append(path, b"3")
    assert path.read_text() == "editor"


def test_a_program_that_empties_the_file_while_it_is_read_waits_for_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "memory.md"
    path.write_bytes(b"whole")
    read, emptied = os.read, threading.Event()

    def save() -> None:
        with path.open("wb") as file:
            emptied.set()
            file.write(b"new")

    editor = threading.Thread(target=save)

    def slow(handle: int, count: int) -> bytes:
        if not editor.is_alive() and not emptied.is_set():
            editor.start()
            emptied.wait(0.2)
        return read(handle, count)

    monkeypatch.setattr(os, "read", slow)
    assert files.read(path, 100) == b"whole"
    editor.join()
    assert files.read(path, 100) == b"new"
