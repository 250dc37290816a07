"""What the channel keeps under `{home}/state/loopd/mattermost/`, each file written whole, at once and on disk.

began.json          from when on posts are the box's business
names.json          whom each `@name` of the settings meant when it was read first
channels/<id>.json  how far a channel is done with, and what is done beyond that
threads/<id>.json   which post of a thread was last put into its session's log, or was about to be
"""

from pathlib import Path
from typing import TypeVar

import msgspec

from loopd.channels.mattermost.posts import is_id
from proto.faults import Fault
from proto.role import durable


class Began(msgspec.Struct, frozen=True, kw_only=True):
    """The time of the box's first connection, in milliseconds of the server's clock."""

    at: int


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A channel: every post up to `(at, post)` is done with, and those in `done` (their times) beyond it.

    What was said before `since` never was the box's business.
    """

    at: int = 0
    post: str = ""
    since: int = 0
    done: dict[str, int] = {}


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """A post that becomes the record of a number: written before the record is."""

    post: str
    at: int
    record: int
    digest: str
    """SHA-256 of the record's text, in hexadecimal."""


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    """A thread whose session was begun: where, by whom, and what was last heard in it.

    `earlier` are posts that go into the log before the heard one; `read` is the time and id up to which the thread
    had been read before.
    """

    channel: str
    principal: str
    owner: bool
    heard: Heard | None = None
    earlier: list[Heard] = []
    read: tuple[int, str] = (0, "")


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """Users' ids by the `@name`s of the settings."""

    users: dict[str, str] = {}


T = TypeVar("T", Began, Kept, Thread, Names)


class Ledger:
    """The folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for part in (folder, folder / "channels", folder / "threads"):
            durable.make_folder(part)
            durable.sweep_temporaries(part)

    def began(self, now_ms: int) -> int:
        """When the box began to listen; kept from the first time on."""
        path = self._folder / "began.json"
        if (found := _read(path, Began)) is not None:
            return found.at
        _write(path, Began(at=now_ms))
        return now_ms

    def whom(self, name: str, user: str) -> str:
        """Whom an `@name` means: the user who had it when it was first asked about, whoever has it now."""
        path = self._folder / "names.json"
        users = (_read(path, Names) or Names()).users
        if name not in users:
            _write(path, Names(users={**users, name: user}))
        return users.get(name, user)

    def channels(self) -> dict[str, Kept]:
        """What is kept of every channel.

        Raises:
            Fault: `mattermost-ledger`: a file cannot be read.

        """
        names = [path.stem for path in sorted((self._folder / "channels").glob("*.json")) if is_id(path.stem)]
        found = {name: _read(self._folder / "channels" / f"{name}.json", Kept) for name in names}
        return {name: kept for name, kept in found.items() if kept is not None}

    def keep(self, channel: str, kept: Kept) -> None:
        """Keep how far a channel is done.

        Raises:
            Fault: `internal`: it could not be written.

        """
        _write(self._folder / "channels" / f"{channel}.json", kept)

    def thread(self, root: str) -> Thread | None:
        """What is kept of a thread."""
        return _read(self._folder / "threads" / f"{root}.json", Thread)

    def put(self, root: str, thread: Thread) -> None:
        """Keep what is known of a thread.

        Raises:
            Fault: `internal`: it could not be written.

        """
        _write(self._folder / "threads" / f"{root}.json", thread)


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        # To go on without it would answer again what was answered.
        raise Fault("mattermost-ledger", f"{path} cannot be read: {error}") from None


def _write(path: Path, value: Began | Kept | Thread | Names) -> None:
    try:
        durable.replace(path, msgspec.json.encode(value))
    except OSError as error:
        raise Fault("internal", f"{path} cannot be written: {error.strerror or error}") from None
