"""Where the box is: its home, its owner sockets, and what bxctl keeps in it."""

import os
import shlex
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from bxctl.owner import become
from proto.faults import Fault
from proto.home import SYSTEM_HOME, default_home
from proto.messages.wire import Ok, Ping
from proto.role.ask import ask
from proto.sockets import SOCKETS, socket

_LONGEST_SOCKET_BYTES: Final = 107
_UNIT: Final = "boxmaker-memoryd.service"
_OF_SYSTEM: Final = ("/etc/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system")
OWNER_ROWS: Final = ("owner-memory", "owner-broker", "owner-egress", "owner-loop")
"""The sockets that bxctl opens."""


class Box(NamedTuple):
    """A box: its home, and a daemon's socket where the command line names another than the home's own."""

    home: Path
    memory_socket: Path | None = None
    admin_socket: Path | None = None

    def socket(self, row: str) -> Path:
        """The path of an owner socket, `owner-memory` and the like."""
        named = {"owner-memory": self.memory_socket, "owner-broker": self.admin_socket}.get(row)
        return named or socket(row).at(self.home)

    def ask(self, row: str, request: msgspec.Struct, *replies: type[msgspec.Struct], timeout_s: float = 30.0) -> Any:
        """The reply of the daemon behind an owner socket.

        Raises:
            Unreachable: it does not answer.
            Fault: what it answered as an error.

        """
        try:
            return ask(self.socket(row), request, *replies, timeout_s=timeout_s)
        except Fault as fault:
            raise Unreachable(self, row) if fault.code == Unreachable.CODE else fault from None

    def answers(self, row: str, timeout_s: float = 2.0) -> bool:
        """Whether the daemon behind an owner socket answers a ping."""
        try:
            ask(self.socket(row), Ping(), Ok, timeout_s=timeout_s)
        except Fault:
            return False
        return True

    def command(self, *words: str) -> str:
        """A command for this box as it can be typed: with its home, unless that is found by itself."""
        named = () if self.home == default_home(None, os.environ, own=True) else ("--home", str(self.home))
        return shlex.join(("bxctl", *named, *words))

    @property
    def units(self) -> Path | None:
        """The folder of the units by which systemd runs this box; None where it does not."""
        config = Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"))
        folders = _OF_SYSTEM if self.home == SYSTEM_HOME else (str(config / "systemd/user"),)
        for folder in map(Path, folders):
            try:
                if f"--home {self.home} " in (folder / _UNIT).read_text(encoding="utf-8"):
                    return folder
            except (OSError, UnicodeDecodeError):
                continue
        return None

    @property
    def start(self) -> str:
        """The command that starts the box."""
        if self.units is None:
            return self.command("up")
        return f"{'sudo systemctl' if self.home == SYSTEM_HOME else 'systemctl --user'} start boxmaker.target"

    def log_of(self, daemon: str) -> str:
        """The command that shows what a daemon said last."""
        if self.units is None:
            return f"tail {shlex.quote(str(self.own / 'up.log'))}"
        command = "sudo journalctl" if self.home == SYSTEM_HOME else "journalctl --user"
        return f"{command} -n 20 -u boxmaker-{daemon}"

    def need(self) -> None:
        """Refuse a home that is not there.

        Raises:
            Fault: `home-missing`.

        """
        if not self.home.is_dir():
            raise Fault("home-missing", f"there is no box at {self.home}; make one with: {self.command('init')}")

    def file(self, name: str) -> Path:
        """Where a file of the owner's is written: a link that leads to another place in the home is followed.

        On a system install keys and prices lie in `local/`, which not every daemon sees.
        """
        path, real = self.home / name, Path(os.path.realpath(self.home / name))
        return real if path.is_symlink() and real.is_relative_to(self.home.resolve()) else path

    @property
    def own(self) -> Path:
        """The folder of bxctl's own files."""
        return self.home / "state" / "bxctl"

    @property
    def made(self) -> bool:
        """Whether `bxctl init` has been here."""
        return (self.home / "config").is_dir() and (self.home / "grants.toml").is_file()


class Unreachable(Fault):
    """A daemon of a box does not answer; the sentence says what to do."""

    CODE: Final = "peer-unreachable"

    def __init__(self, box: Box, row: str) -> None:
        server = socket(row).server
        where = box.socket(row)
        super().__init__(self.CODE, f"{server} does not answer at {where}; start the box with: {box.start}")
        self.box = box
        self.row = row


def find(home: str | None, memory_socket: Path | None = None, admin_socket: Path | None = None) -> Box:
    """The box that the command line and the environment name; as its user from here on."""
    place = named(home)
    become(place, sys.argv)
    return Box(place, memory_socket, admin_socket)


def named(home: str | None) -> Path:
    """The home that the command line and the environment name."""
    try:
        return default_home(home or _named[-1], os.environ, own=True)
    except PermissionError as error:
        raise Fault("home-missing", f"{error.filename}: {error.strerror}") from None


_named: list[str | None] = [None]


def name(home: str | None) -> None:
    """Take a home that was named before the command."""
    _named[:] = [home]


def too_long_bytes(home: Path) -> int:
    """By how many bytes the longest path of a socket in a home is too long for an address; 0 when all fit."""
    longest = max(len(os.fsencode(row.at(home))) for row in SOCKETS)
    return max(longest - _LONGEST_SOCKET_BYTES, 0)
