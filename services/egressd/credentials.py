"""The keys of destinations: where they are looked for, and what keeps them from being shown.

In this order: systemd's credentials folder, `{home}/credentials.env` (0600, read again when it changes), egressd's
environment. A value never stands in a message of this module.
"""

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from proto.faults import Fault

FILE: Final = "credentials.env"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# What may stand in a header as one word; a key with a line feed in it would be a second header.
_VALUE: Final = re.compile(r"[\x21-\x7e]+\Z")
_LINE: Final = re.compile(r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>.*?)\s*\Z")
_Stamp = tuple[int, int, int]


class Credentials:
    """Finds keys by the name of their variable."""

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self._path = home / FILE
        self._environ = environ
        self._stamp: _Stamp | None = None
        self._values: dict[str, str] = {}

    def find(self, name: str) -> str:
        """The key.

        Raises:
            Fault: `credential-missing`: it is set nowhere, cannot be read, or cannot stand in a header.

        """
        if not _NAME.match(name):
            raise Fault("credential-missing", "the destination's credential is not the name of a variable")
        value = self._passed(name) or self._filed().get(name) or self._environ.get(name)
        if not value:
            raise Fault("credential-missing", f"the destination's credential {name} is not set")
        if not _VALUE.match(value):
            raise Fault("credential-missing", f"the credential {name} holds a character that no key has")
        return value

    def is_set(self, name: str) -> bool:
        """Whether the key can be used."""
        try:
            return bool(self.find(name))
        except Fault:
            return False

    def _passed(self, name: str) -> str | None:
        """The key in the folder that systemd passed (systemd.exec(5), "Credentials")."""
        folder = self._environ.get("CREDENTIALS_DIRECTORY")
        if not folder:
            return None
        try:
            return (Path(folder) / name).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError):
            raise Fault("credential-missing", f"the credential {name} that systemd passed cannot be read") from None

    def _filed(self) -> dict[str, str]:
        """The keys of credentials.env as it is now."""
        try:
            handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return {}
        except OSError:
            raise Fault("credential-missing", f"{self._path} cannot be read") from None
        with open(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
                raise Fault("credential-missing", f"others can read {self._path}; make it 0600")
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp != self._stamp:
                self._values = _parse(file.read())
                self._stamp = stamp
        return self._values


def _parse(data: bytes) -> dict[str, str]:
    """The variables of lines `NAME=value`; quotes around a value are taken off, other lines say nothing."""
    values = {}
    for line in data.decode("utf-8", "replace").splitlines():
        if found := _LINE.match(line):
            value = found["value"]
            if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
                value = value[1:-1]
            values[found["name"]] = value
    return values
