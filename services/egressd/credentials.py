"""The keys of destinations: where they are looked for, and what keeps them from being shown.

In this order: systemd's credentials folder, `{home}/credentials.env` (0600, read again when it changes), egressd's
environment. A value never stands in a message of this module.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from egressd.stamp import Stamp, stamp_from, stamp_of
from proto import credentials
from proto.faults import Fault

_OF_A_FOLDER: Final = "keys_"
"""What systemd puts before the names of the files of a folder (`LoadCredential=keys:…`)."""


class Credentials:
    """Finds keys by the name of their variable."""

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self._file = _OwnFile(home / credentials.FILE)
        self._gateway = _OwnFile(home / credentials.GATEWAY_FILE)
        self._environ = environ
        self._values: dict[str, str] = {}

    def find(self, name: str) -> str:
        """The key.

        Raises:
            Fault: `credential-missing`: it is set nowhere, cannot be read, or cannot stand in a header.

        """
        value = self._looked_up(name)
        if not value:
            what = f"the destination's credential {name} is not set; give it with: bxctl credential set {name}"
            raise Fault("credential-missing", what)
        return _usable(name, value)

    def find_gateway(self, name: str | None) -> str:
        """The key of a gateway: that of a variable, or else the one in `{home}/local/.virtual-key`.

        Raises:
            Fault: `credential-missing`, as `find`.

        """
        value = self._looked_up(name) if name else None
        if value:
            return _usable(str(name), value)
        self._gateway.changed()
        value = self._gateway.data.decode("utf-8", "replace").strip()
        if not value:
            unset = f"{name} is not set and " if name else ""
            raise Fault("credential-missing", f"{unset}{self._gateway.path} holds no key of the gateway")
        return _usable(credentials.GATEWAY_FILE, value)

    def variable(self, name: str) -> str | None:
        """The value of a variable that is no key, such as a base URL; None where it is not set or cannot be read."""
        try:
            return self._looked_up(name) or None
        except Fault:
            return None

    def is_set(self, name: str) -> bool:
        """Whether the key can be used."""
        try:
            return bool(self.find(name))
        except Fault:
            return False

    def is_gateway_set(self, name: str | None) -> bool:
        """Whether the gateway's key can be used."""
        try:
            return bool(self.find_gateway(name))
        except Fault:
            return False

    def _looked_up(self, name: str) -> str | None:
        if not credentials.is_name(name):
            raise Fault("credential-missing", "the destination's credential is not the name of a variable")
        return self._passed(name) or self._filed().get(name) or self._environ.get(name)

    def _passed(self, name: str) -> str | None:
        """The key in the folder that systemd passed (systemd.exec(5), "Credentials"): by its name, or as a file of the
        folder that the unit loads as `keys`.
        """
        folder = self._environ.get("CREDENTIALS_DIRECTORY")
        if not folder:
            return None
        for file in (name, f"{_OF_A_FOLDER}{name}"):
            try:
                return (Path(folder) / file).read_text(encoding="utf-8").strip()
            except FileNotFoundError:
                continue
            except (OSError, UnicodeDecodeError):
                raise Fault("credential-missing", f"the credential {name} that systemd passed cannot be read") from None
        return None

    def _filed(self) -> dict[str, str]:
        """The keys of credentials.env as it is now."""
        if self._file.changed():
            self._values = credentials.parse(self._file.data)
        return self._values


class _OwnFile:
    """A file of the owner's that nobody else can read, as it is now; one that is not there is empty."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = b""
        self._stamp: Stamp | None = None

    def changed(self) -> bool:
        """Read it again if it changed; whether it did.

        Raises:
            Fault: `credential-missing`: it cannot be read, or others can read it.

        """
        if self._stamp is not None and stamp_of(self.path) == self._stamp:
            return False
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            known, self._stamp, self.data = self._stamp, None, b""
            return known is not None
        except OSError:
            raise Fault("credential-missing", f"{self.path} cannot be read") from None
        with open(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
                raise Fault("credential-missing", f"others can read {self.path}; make it 0600")
            self.data, self._stamp = file.read(), stamp_from(status)
        return True


def _usable(name: str, value: str) -> str:
    if not credentials.is_value(value):
        raise Fault("credential-missing", f"the credential {name} holds a character that no key has")
    return value
