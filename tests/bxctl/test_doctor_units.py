"""`bxctl doctor` on a box that systemd runs: each thing that can be wrong with its units, and the command that mends it."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bxctl.checks import editor, on_file
from bxctl.checks import units as checks
from bxctl.checks.units import looks
from bxctl.commands.init import make
from bxctl.places import Box
from bxctl.systemd.units import SYSTEM, Place, units
from bxctl.systemd.view import SERVICES, passed_to
from proto.home import SYSTEM_HOME
from tests.bxctl.conftest import Bxctl

FINE = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "UnitFileState": "enabled",
    "NRestarts": "0",
    "NeedDaemonReload": "no",
}
Found = list[tuple[str, str, str]]


class Host:
    """A user's systemd that says what it is told to: a `systemctl` first on the path, and the units of a home."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.box = Box(home)
        self.place = Place("user", "/opt/of-a-test", str(home))
        self.units = folder / "config" / "systemd" / "user"
        self.units.mkdir(parents=True)
        for name, text in units(self.place).items():
            (self.units / name).write_text(f"# a comment\n{text}")
        self.states = {name: FINE | {"Id": name} for name in units(self.place)}
        self._answer = folder / "answer"
        (folder / "bin").mkdir()
        program = folder / "bin" / "systemctl"
        program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "systemd 252 (252.1)" || cat {self._answer}\n')
        program.chmod(0o755)

    def found(self) -> Found:
        """What is found."""
        blocks = ["\n".join(f"{key}={value}" for key, value in state.items()) for state in self.states.values()]
        self._answer.write_text("\n\n".join(blocks) + "\n")
        return [(one.where, one.what, one.mend) for look in looks(self.box) for one in look.findings]


@pytest.fixture
def host(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    made = Host(home, tmp_path)
    make(made.box, "Ada", "dom-me")
    (home / "local").mkdir()
    for name in ("credentials.env", "prices.toml"):
        (home / name).rename(home / "local" / name)
        (home / name).symlink_to(f"local/{name}")
    with ExitStack() as sockets:
        for service in SERVICES:
            for row in passed_to(service):
                path = row.at(home)
                path.parent.mkdir(parents=True, exist_ok=True)
                sockets.enter_context(socket.socket(socket.AF_UNIX)).bind(str(path))
                path.chmod(0o600)
        monkeypatch.setattr("bxctl.checks.units._REFUSED_USER_NAMESPACES", {})
        yield made


def test_nothing_is_wrong(host: Host) -> None:
    assert host.found() == []
    assert [look.at for look in looks(host.box)] == ["units", "sockets", "keys", "kernel"]
    assert next(looks(host.box)).saw == "11 of 11 active"


def test_the_model_may_be_asleep(host: Host) -> None:
    host.states["boxmaker-model.service"] |= {"ActiveState": "inactive"}
    assert host.found() == []
    assert next(looks(host.box)).saw == "10 of 11 active; boxmaker-model starts when it is asked"


def test_a_box_that_systemd_does_not_run_is_not_looked_at_so(host: Host) -> None:
    assert list(looks(host.box._replace(home=host.box.home / "other"))) == []


STATES: list[tuple[str, dict[str, str], Found]] = [
    (
        "boxmaker-loopd.service",
        {"ActiveState": "failed"},
        [
            (
                "boxmaker-loopd.service",
                "failed again and again, and is left alone",
                "systemctl --user reset-failed boxmaker-loopd.service && systemctl --user restart boxmaker.target",
            )
        ],
    ),
    (
        "boxmaker-memoryd.service",
        {"ActiveState": "inactive"},
        [("boxmaker-memoryd.service", "is inactive", "systemctl --user start boxmaker.target")],
    ),
    (
        "boxmaker-egressd.socket",
        {"LoadState": "not-found", "ActiveState": "inactive"},
        [("boxmaker-egressd.socket", "is not loaded: not-found", "bxctl install --user")],
    ),
    (
        "boxmaker-brokerd.service",
        {"NeedDaemonReload": "yes"},
        [
            (
                "boxmaker-brokerd.service",
                "was changed on disk and not read again",
                "systemctl --user daemon-reload",
            )
        ],
    ),
    (
        "boxmaker.target",
        {"UnitFileState": "disabled"},
        [("boxmaker.target", "does not start when you log in", "systemctl --user enable boxmaker.target")],
    ),
    (
        "boxmaker-memoryd.service",
        {"NRestarts": "3"},
        [
            (
                "boxmaker-memoryd.service",
                "ended and was started again 3 times",
                "journalctl --user -u boxmaker-memoryd.service -p 4",
            )
        ],
    ),
    ("boxmaker-model.socket", {"ActiveState": "inactive"}, []),
]


@pytest.mark.parametrize(("unit", "state", "found"), STATES)
def test_a_unit_that_is_not_as_it_should_be(host: Host, unit: str, state: dict[str, str], found: Found) -> None:
    host.states[unit] |= state
    assert host.found() == found


def _units_of_another_version(host: Host) -> str:
    (host.units / "boxmaker-loopd.service").write_text("[Service]\n")
    return "units: not those of this version: boxmaker-loopd.service → bxctl install --user"


def _a_socket_that_others_reach(host: Host) -> str:
    (host.box.home / "run/loop-memory/memory.sock").chmod(0o666)
    return "run/loop-memory/memory.sock: mode 666, not 600 → systemctl --user restart boxmaker.target"


def _a_socket_that_is_gone(host: Host) -> str:
    (host.box.home / "run/loop-memory/memory.sock").unlink()
    return "run/loop-memory/memory.sock: No such file or directory → systemctl --user restart boxmaker.target"


def _a_file_in_the_place_of_a_socket(host: Host) -> str:
    path = host.box.home / "run/loop-memory/memory.sock"
    path.unlink()
    path.touch(0o600)
    return "run/loop-memory/memory.sock: is no socket → systemctl --user restart boxmaker.target"


def _keys_beside_grants_toml(host: Host) -> str:
    path = host.box.home / "credentials.env"
    path.unlink()
    path.write_text("A=1\n")
    return "credentials.env: lies beside grants.toml, where brokerd sees it, and not in local/ → bxctl install --user"


@pytest.mark.parametrize(
    "wrong",
    [
        _units_of_another_version,
        _a_socket_that_others_reach,
        _a_socket_that_is_gone,
        _a_file_in_the_place_of_a_socket,
        _keys_beside_grants_toml,
    ],
    ids=lambda wrong: wrong.__name__.strip("_"),
)
def test_what_is_not_as_it_should_be(host: Host, wrong: Callable[[Host], str]) -> None:
    said = wrong(host)
    assert [f"{where}: {what} → {mend}" for where, what, mend in host.found()] == [said]


def test_a_kernel_that_does_not_let_a_user_shut_services_in(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "restrict").write_text("1\n")
    monkeypatch.setattr("bxctl.checks.units._REFUSED_USER_NAMESPACES", {str(tmp_path / "restrict"): "1"})
    ((where, what, _),) = host.found()
    assert where == "user namespaces"
    assert what.endswith("is 1: a user's services cannot be shut in, and do not start")


def test_systemd_that_does_not_answer(host: Host, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "systemctl"
    program.write_text("#!/bin/sh\necho 'Failed to connect to bus' >&2\nexit 1\n")
    assert host.found() == [
        ("units", "systemctl cannot be asked: Failed to connect to bus", "systemctl --user status boxmaker.target")
    ]


def test_such_a_box_is_not_started_by_hand(host: Host, bxctl: Bxctl) -> None:
    result = bxctl("up")
    assert result.code == 1
    assert result.err == (
        f"bxctl: systemd runs this box ({host.units}); start it with: systemctl --user start boxmaker.target\n"
    )


def test_on_a_system_install_its_files_are_mended_as_its_user() -> None:
    """Whoever asked is another user, and the home is shut to him."""
    assert editor(SYSTEM_HOME / "grants.toml") == f"sudo -u boxmaker $EDITOR {SYSTEM_HOME}/grants.toml"
    assert on_file("chmod go=", SYSTEM_HOME) == f"sudo -u boxmaker chmod go= {SYSTEM_HOME}"
    assert editor(Path("/home/ada/box/grants.toml")) == "$EDITOR /home/ada/box/grants.toml"


def test_what_only_egressd_is_given_is_shut_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys, environment = tmp_path / "keys", tmp_path / "egressd.env"
    monkeypatch.setattr(checks, "KEYS", str(keys))
    monkeypatch.setattr(checks, "ENVIRONMENT", str(environment))

    def found() -> list[tuple[str, str]]:
        return [(one.what, one.mend) for one in checks._keys(Box(tmp_path), SYSTEM, "sudo bxctl install")]

    assert found() == [("is not there: egressd does not start without it", "sudo bxctl install")]
    keys.mkdir(mode=0o700)
    environment.touch(0o600)
    assert found() == []
    keys.chmod(0o750)
    environment.chmod(0o644)
    assert found() == [
        ("mode 750: others can reach it", f"sudo chmod go= {keys}"),
        ("mode 644: others can reach it", f"sudo chmod go= {environment}"),
    ]
