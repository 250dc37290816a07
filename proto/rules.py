"""`{home}/grants.toml`: the owner's rules that both brokerd and egressd read, and must read alike.

Each section is known here to the letter: an unknown key is an error, and an error closes what it decides.
"""

import os
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from proto import forms
from proto.ids import DestinationName
from proto.labels import DataClass
from proto.role.config import load

BaseUrl = Annotated[str, msgspec.Meta(pattern=forms.BASE_URL.pattern)]


class Destination(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where bytes may go. The path of a request is put after `base_url` as it is."""

    base_url: BaseUrl
    """https://, http:// to loopback, or unix:PATH (a relative path is under the home)."""
    api: Literal["openai-chat"] = "openai-chat"
    ceiling: DataClass = DataClass.PRIVATE
    """The highest class of a session whose bytes may go there."""
    credential: str | None = None
    """The name of the variable that holds the key; looked for where `docs/configuration.md` says."""


class Rules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of grants.toml."""

    destinations: dict[DestinationName, Destination] = {}


FILE: Final = "grants.toml"


def load_rules(home: Path) -> Rules:
    """The rules in a home; none when the file is absent.

    Raises:
        Fault: `config-invalid`, with the file, the line and the key.

    """
    path = home / FILE
    return load(path, Rules) if os.path.lexists(path) else Rules()
