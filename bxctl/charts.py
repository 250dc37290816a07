"""Amounts in few characters, and bars of them. Nothing is printed here, and a text from elsewhere comes escaped."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Final, NamedTuple

_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_NUSD: Final = 10**9
_SHORTEST_BAR: Final = 8
_LONGEST_LABEL: Final = 36
_UNITS: Final = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_WHOLE: Final = 10_000
"""What is below is shown to the last."""


class Bar(NamedTuple):
    """A bar: what it is of, how long it is, and its amount in words."""

    label: str
    value: int
    shown: str


def count(number: int) -> str:
    """A number in at most six characters or so: `9,999`, `12.3k`, `34.0M`."""
    if number < _WHOLE:
        return f"{number:,}"
    # From 999,950 on, thousands would be shown as 1000.0.
    size, unit = next((size, unit) for size, unit in _UNITS if number * 100 >= size * 99.995 or size == 10**3)
    return f"{number / size:,.1f}{unit}"


def dollars(nusd: int, *, floor: bool = False) -> str:
    """Nano-dollars as US dollars, to a hundredth of a cent: `$12.3456`; `+` says that it is no less than that."""
    usd = Decimal(nusd) / _NUSD
    shown = f"${usd:,.4f}"
    if nusd and Decimal(shown.replace("$", "").replace(",", "")) == 0:
        shown = "<$0.0001"
    return f"{shown}+" if floor else shown


def bars(rows: Sequence[Bar], width: int) -> list[str]:
    """A line for each bar, the longest value as wide as there is room in a line of so many characters."""
    label_chars = min(max((len(row.label) for row in rows), default=0), _LONGEST_LABEL)
    shown_chars = max((len(row.shown) for row in rows), default=0)
    room = max(width - label_chars - shown_chars - 4, _SHORTEST_BAR)
    most = max((row.value for row in rows), default=0)
    labels = (f"{_cut(row.label, label_chars):<{label_chars}}  {row.shown:>{shown_chars}}" for row in rows)
    return [f"{label}  {_bar(row.value, most, room)}".rstrip() for label, row in zip(labels, rows, strict=True)]


def _cut(label: str, chars: int) -> str:
    return label if len(label) <= chars else f"{label[: chars - 1]}…"


def _bar(value: int, most: int, room: int) -> str:
    if not value:
        return ""
    eighths = max(1, value * room * 8 // most)
    return ("█" * (eighths // 8) + _EIGHTHS[eighths % 8]).rstrip()
