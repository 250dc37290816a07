"""The kept items on disk: put there whole, found, shown, erased. The listing in memory follows the files.

An item is put so: its bodies are renamed to their places, the folder is fsynced, and only then comes its `.json`. It is
erased so: first the `.json` says why it is, then the bodies go. Whatever a crash leaves between two steps, `take_up`
finishes: bodies without a `.json` are nobody's, and bodies of an erased item go.
"""

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from memoryd.kept import folders
from memoryd.kept import item as names
from memoryd.kept.item import Slim, Where
from memoryd.kept.listing import Listing
from proto.faults import Fault
from proto.ids import is_session_id
from proto.messages.memory import KeptItem, KeptKind
from proto.role import durable
from proto.role.log import logger

RETENTION: Final = "retention"
OWNER: Final = "owner"


class Holding:
    """The items of a home. Used from any thread."""

    def __init__(self, record: Path) -> None:
        self._record = record
        self._listing = Listing()
        self._lock = Lock()

    def open(self) -> None:
        """Make the folder of all of it.

        Raises:
            OSError: it cannot be used.

        """
        durable.make_folder(self._record)

    def take_up(self, breathe: Callable[[], None] = lambda: None) -> int:
        """Finish what a crash left, and list what there is; how many items that is. `breathe` may end it midway."""
        found: list[Slim] = []
        for domain, kept, folder in self._folders():
            breathe()
            found += self._mended(domain, kept, folder)
        with self._lock:
            self._listing.add_all(found)
        return len(found)

    def put(self, item: KeptItem, bodies: Mapping[str, Path]) -> bool:
        """Keep an item with its bodies, which are files of the same file system; whether it is new.

        One of the same kind, session and call that is there already stays, also when it is erased.

        Raises:
            OSError: the disk refuses; it is not kept.

        """
        with self._lock:
            if self._where(item.kept, item.session, item.call) is not None:
                for path in bodies.values():
                    path.unlink(missing_ok=True)
                return False
            folder = self._folder(Where(item.kept, item.domain, item.session, item.call))
            durable.make_folder(folder)
            try:
                for part, path in bodies.items():
                    os.rename(path, folder / names.body_name(item.call, part))
                durable.sync_folder(folder)
                durable.replace(folder / names.said_name(item.call), names.encoded(item))
            except OSError:
                with suppress(OSError):
                    folders.remove(folder, [names.body_name(item.call, part) for part in bodies])
                raise
            self._listing.add(item)
            return True

    def newest(self, kept: KeptKind, session: str | None, last: int, before: str | None) -> list[KeptItem]:
        """The last items of a kind, newest first; one that cannot be read is left out."""
        with self._lock:
            places = self._listing.newest(kept, session, before)
        return list(itertools.islice((item for where in places if (item := self._read(where)) is not None), last))

    def find(self, kept: KeptKind, session: str, call: str) -> KeptItem:
        """An item.

        Raises:
            Fault: `kept-unknown`; `memory-unavailable`: its `.json` cannot be read.

        """
        where = self._where(kept, session, call)
        if where is None:
            raise Fault("kept-unknown")
        item = self._read(where)
        if item is None:
            raise Fault("memory-unavailable", f"{self._folder(where) / names.said_name(call)} cannot be read")
        return item

    def read(self, item: KeptItem, part: str, offset: int, most_bytes: int) -> bytes:
        """Bytes of a body from an offset on; none when it is erased.

        Raises:
            Fault: `kept-unknown`: it has no such part; `memory-unavailable`: the body is not what was kept.

        """
        said = next((one for one in item.parts if one.name == part), None)
        if said is None:
            raise Fault("kept-unknown", "the item has no part of that name")
        if item.erased is not None:
            return b""
        path = self._folder(Where(item.kept, item.domain, item.session, item.call)) / names.body_name(item.call, part)
        try:
            handle = os.open(path, folders.READ)
            try:
                if os.fstat(handle).st_size != said.size_bytes:
                    raise Fault("memory-unavailable", f"{path} is damaged: it has not the size that was kept")
                return os.pread(handle, most_bytes, offset)
            finally:
                os.close(handle)
        except OSError as error:
            raise Fault("memory-unavailable", f"{path} cannot be read: {error.strerror}") from None

    def erase(self, kept: KeptKind, session: str, call: str, why: str) -> bool:
        """Take an item's bodies away for good; whether it had any. What is said of it stays, and says why.

        Raises:
            Fault: `kept-unknown`, `memory-unavailable`.
            OSError: the disk refuses.

        """
        with self._lock:
            item = self.find(kept, session, call)
            folder = self._folder(Where(kept, item.domain, session, call))
            if item.erased is None:
                erased = msgspec.structs.replace(item, erased=why)
                durable.replace(folder / names.said_name(call), names.encoded(erased))
            bodies = [names.body_name(call, part.name) for part in item.parts]
            if left := [name for name in bodies if os.path.lexists(folder / name)]:
                folders.remove(folder, left)
            return item.erased is None

    def erase_all(self, kept: KeptKind, session: str, why: str) -> int:
        """Take the bodies of all items of a session away; how many items lost theirs.

        Raises:
            Fault: `kept-unknown`: nothing of it is or was kept; `memory-unavailable`: one cannot be read, the others
                are erased.
            OSError: the disk refuses; those before are erased.

        """
        places = (self._folder(Where(kept, domain, session, "")) for domain in self._domains())
        calls = sorted(itertools.chain.from_iterable(folders.known(folder)[0] for folder in places))
        if not calls:
            raise Fault("kept-unknown", "nothing of that kind and session is kept")
        erased, unreadable = 0, None
        for call in calls:
            try:
                erased += self.erase(kept, session, call, why)
            except Fault as fault:
                unreadable = fault
        if unreadable is not None:
            raise unreadable
        return erased

    def sweep(self, now: str, breathe: Callable[[], None] = lambda: None) -> int:
        """Erase the bodies whose time has come; how many items lost theirs. What the disk refuses is tried again."""
        with self._lock:
            due = self._listing.take_due(now)
        erased = 0
        refused: list[Where] = []
        try:
            while due:
                breathe()
                where = due.pop()
                try:
                    erased += self.erase(where.kept, where.session, where.call, RETENTION)
                except Fault:
                    continue  # a hand took it away, or wrote into it
                except OSError as error:
                    refused.append(where)
                    logger().error("kept-not-erased", session=where.session, call=where.call, error=str(error))
        finally:
            with self._lock:
                self._listing.put_back([*refused, *due], now)
        return erased

    def _folder(self, where: Where) -> Path:
        return self._record / where.domain / names.folder_name(where.kept) / where.session

    def _where(self, kept: KeptKind, session: str, call: str) -> Where | None:
        if not names.names_a_file(call):
            return None
        places = (Where(kept, domain, session, call) for domain in self._domains())
        return next((one for one in places if (self._folder(one) / names.said_name(call)).is_file()), None)

    def _domains(self) -> list[str]:
        return sorted(name for name in folders.inside(self._record) if names.is_domain(name))

    def _folders(self) -> Iterator[tuple[str, KeptKind, Path]]:
        for domain in self._domains():
            for kept in names.KINDS:
                parent = self._record / domain / names.folder_name(kept)
                for session in folders.inside(parent):
                    if is_session_id(session):
                        yield domain, kept, parent / session

    def _read(self, where: Where) -> KeptItem | None:
        path = self._folder(where) / names.said_name(where.call)
        data = folders.content(str(path))
        item = None if data is None else names.decoded(data)
        # What lies in another's place is none: a copy that a hand made.
        if item is None or (item.kept, item.domain, item.session, item.call) != where:
            logger().error("kept-item-unreadable", path=str(path))
            return None
        return item

    def _slim(self, folder: str, where: Where) -> Slim | None:
        """As `_read`, of an item only what a listing takes: there are very many of them."""
        path = f"{folder}/{names.said_name(where.call)}"
        data = folders.content(path)
        item = None if data is None else names.decoded_slim(data)
        if item is None or item.where != where:
            logger().error("kept-item-unreadable", path=path)
            return None
        return item

    def _mended(self, domain: str, kept: KeptKind, folder: Path) -> list[Slim]:
        """A folder's items, once what a crash left in it is finished."""
        found: list[Slim] = []
        with self._lock:
            durable.sweep_temporaries(folder)
            said, bodies = folders.known(folder)
            for call in sorted(said):
                item = self._slim(str(folder), Where(kept, domain, folder.name, call))
                if item is not None:
                    found.append(item)
                if item is None or item.erased is None:
                    bodies.pop(call, None)
            left = list(itertools.chain.from_iterable(bodies.values()))
            if left:
                logger().info("kept-leftovers-removed", folder=str(folder), files=len(left))
                folders.remove(folder, left)
        return found
