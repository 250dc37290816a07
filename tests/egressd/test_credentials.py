"""Keys: which place wins, what makes one unusable, and that no value is ever in a message."""

import os
from pathlib import Path

import pytest

from egressd.credentials import Credentials
from proto.faults import Fault

SECRET = "sk-live-1234567890abcdef"


def _file(home: Path, text: str, mode: int = 0o600) -> None:
    path = home / "credentials.env"
    path.write_text(text)
    path.chmod(mode)


def test_the_first_place_wins(tmp_path: Path) -> None:
    passed = tmp_path / "passed"
    passed.mkdir()
    found = Credentials(tmp_path, {"KEY": "of-environment", "CREDENTIALS_DIRECTORY": str(passed)})
    assert found.find("KEY") == "of-environment"
    _file(tmp_path, "KEY=of-file\n")
    assert found.find("KEY") == "of-file"
    (passed / "keys_KEY").write_text("of-a-folder-of-systemd\n")
    assert found.find("KEY") == "of-a-folder-of-systemd"
    (passed / "KEY").write_text("of-systemd\n")
    assert found.find("KEY") == "of-systemd"


def test_the_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    found = Credentials(tmp_path, {})
    _file(tmp_path, "KEY=one\n")
    assert found.find("KEY") == "one"
    _file(tmp_path, "KEY=two-longer\n")
    assert found.find("KEY") == "two-longer"
    (tmp_path / "credentials.env").unlink()
    assert not found.is_set("KEY")


def test_a_file_that_others_may_read_from_now_on_is_not_used_from_now_on(tmp_path: Path) -> None:
    found = Credentials(tmp_path, {})
    _file(tmp_path, f"KEY={SECRET}\n")
    for _ in range(2):
        assert found.find("KEY") == SECRET
        (tmp_path / "credentials.env").chmod(0o644)
        with pytest.raises(Fault, match="make it 0600"):
            found.find("KEY")
        (tmp_path / "credentials.env").chmod(0o600)


@pytest.mark.parametrize(
    "line", ["KEY=v1", "export KEY=v1", '  KEY = "v1"  ', "KEY='v1'", "# KEY=no\nKEY=v1\r\n", "KEY=no\nKEY=v1"]
)
def test_lines_of_the_file(tmp_path: Path, line: str) -> None:
    _file(tmp_path, line)
    assert Credentials(tmp_path, {}).find("KEY") == "v1"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_a_file_that_others_may_read_is_not_used(tmp_path: Path, mode: int) -> None:
    _file(tmp_path, f"KEY={SECRET}\n", mode)
    with pytest.raises(Fault) as caught:
        Credentials(tmp_path, {"KEY": SECRET}).find("KEY")
    assert caught.value.code == "credential-missing"
    assert "0600" in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("value", [f"{SECRET}\r\nX-Evil: 1", f"{SECRET} x", f"{SECRET}\u00e9", "a\x00b"])
def test_a_value_that_cannot_stand_in_a_header_is_not_used(tmp_path: Path, value: str) -> None:
    with pytest.raises(Fault) as caught:
        Credentials(tmp_path, {"KEY": value}).find("KEY")
    assert caught.value.code == "credential-missing"
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("name", ["../KEY", "KEY/..", "", "1KEY", "KEY\n", "CREDENTIALS.DIRECTORY"])
def test_only_the_name_of_a_variable_is_looked_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "KEY").write_text(SECRET)
    with pytest.raises(Fault) as caught:
        Credentials(tmp_path / "x", {"CREDENTIALS_DIRECTORY": str(tmp_path / "x"), "../KEY": SECRET}).find(name)
    assert caught.value.code == "credential-missing"


def test_a_fifo_in_its_place_does_not_stop_the_daemon(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "credentials.env", 0o600)
    assert not Credentials(tmp_path, {"KEY": "value"}).is_set("KEY")
