"""Where the box is: its home, its owner sockets, and what bxctl keeps in it."""

import os
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from proto.faults import Fault
from proto.home import SYSTEM_HOME, default_home
from proto.messages.wire import Ok, Ping
from proto.role.ask import ask
from proto.sockets import socket

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
        super().__init__(self.CODE, f"{server} does not answer at {box.socket(row)}; start the box with: bxctl up")
        self.box = box
        self.row = row


def find(home: str | None, memory_socket: Path | None = None, admin_socket: Path | None = None) -> Box:
    """The box that the command line and the environment name; on a system install, as its user from here on."""
    box = Box(default_home(home, os.environ, own=True), memory_socket, admin_socket)
    if command := as_owner(box.home, sys.argv):
        try:
            os.execvp(command[0], command)  # noqa: S606  (no shell is what is wanted)
        except OSError as error:
            raise Fault("home-missing", f"{box.home} is another user's, and sudo: {error.strerror or error}") from None
    return box


def as_owner(home: Path, argv: list[str]) -> list[str] | None:
    """On a system install, the command that runs bxctl again as the box's user; None where it is not needed.

    Raises:
        Fault: `home-missing`: the home belongs to a user that this machine does not know.

    """
    if home != SYSTEM_HOME or not home.is_dir() or (owner := home.stat().st_uid) == os.geteuid():
        return None
    import pwd

    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:
        raise Fault("home-missing", f"{home} belongs to a user that is not known here ({owner})") from None
    return ["sudo", "-u", name, "--", *argv]
