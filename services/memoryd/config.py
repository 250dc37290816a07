"""The settings of memoryd, `config/memoryd.toml` (M5a section 11)."""

from typing import Literal

import msgspec

from proto.labels import DataClass


class Paths(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where things lie."""

    home: str | None = None
    """The box's home; `--home` wins over it, and `$BOXMAKER_HOME`, then `/var/lib/boxmaker`, stand in for it."""


class Memory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The identity files."""

    soul_starter: str = "soul.md"
    """What soul.md starts as: a file next to the configuration; memoryd's own starter when it is not there."""
    review: bool = False
    """Whether writes to memory.md and user.md wait for the owner (`bxctl memory pending`)."""


class IndexSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The full-text index."""

    max_class: DataClass = DataClass.PRIVATE
    """The highest class that is indexed, of session records and of notes."""


class Recall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a recall may answer with."""

    untrusted: Literal["mixed", "last", "never"] = "mixed"
    """The places of untrusted hits: by rank (half of them stay for trusted ones), behind the trusted ones, or none."""


class CheckSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The check of what is to be remembered."""

    allow_joiners: bool = False
    """Whether joiners and variation selectors pass between letters or emoji that need them."""


class Sockets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where memoryd listens, if not under the home's `run/`."""

    loop: str | None = None
    """For loopd; `run/loop-memory/memory.sock` under the home if not given."""
    broker: str | None = None
    """For brokerd; `run/broker-memory/memory.sock` under the home if not given."""
    admin: str | None = None
    """For the owner; `run/owner-memory/admin.sock` under the home if not given."""
    context: str | None = None
    """For egressd's decision contexts; `run/egress-memory/context.sock` under the home if not given."""


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be set for memoryd."""

    paths: Paths = Paths()
    memory: Memory = Memory()
    index: IndexSettings = IndexSettings()
    recall: Recall = Recall()
    check: CheckSettings = CheckSettings()
    sockets: Sockets = Sockets()
