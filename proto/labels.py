"""The one lattice of labels: `class` × `untrusted`.

Laws (tested): `join` is commutative, associative and idempotent; a join is never laxer than either side;
`Label(PUBLIC, False)` is its neutral element. No text that a model wrote parses as a label: labels are columns and
headers that a daemon wrote.
"""

from enum import StrEnum
from typing import Final

import msgspec


class DataClass(StrEnum):
    """How far a text may go. Output and storage use these three words alone."""

    PUBLIC = "public"
    PRIVATE = "private"
    SECRET = "secret"

    @property
    def rank(self) -> int:
        """0 for public, 1 for private, 2 for secret."""
        return _RANKS[self]

    @classmethod
    def _missing_(cls, value: object) -> "DataClass | None":
        """Accept the record's names, `internal` and `restricted`, on input."""
        return _OTHER_NAMES.get(value) if isinstance(value, str) else None


_RANKS: Final = {DataClass.PUBLIC: 0, DataClass.PRIVATE: 1, DataClass.SECRET: 2}
_OTHER_NAMES: Final = {"internal": DataClass.PRIVATE, "restricted": DataClass.SECRET}


class Label(msgspec.Struct, frozen=True):
    """What may be done with a text, and whether it can be believed."""

    class_: DataClass = msgspec.field(name="class")
    untrusted: bool

    def __str__(self) -> str:
        """`private`, or `private · untrusted`."""
        return f"{self.class_.value} · untrusted" if self.untrusted else self.class_.value


PUBLIC: Final = Label(class_=DataClass.PUBLIC, untrusted=False)
PRIVATE: Final = Label(class_=DataClass.PRIVATE, untrusted=False)


def higher(a: DataClass, b: DataClass) -> DataClass:
    """The higher of two classes."""
    return a if a.rank >= b.rank else b


def join(a: Label, b: Label) -> Label:
    """The stricter of each part: the higher class, and untrusted if either is."""
    return Label(class_=higher(a.class_, b.class_), untrusted=a.untrusted or b.untrusted)


def covers(a: Label, b: Label) -> bool:
    """Whether `a` is at least as strict as `b`, so that joining `b` into it changes nothing."""
    return join(a, b) == a


def parse_class(text: str) -> DataClass:
    """The class that a word names.

    Raises:
        ValueError: the word names none; the message says which words do.

    """
    try:
        return DataClass(text)
    except ValueError:
        raise ValueError("a class is public, private or secret") from None
