"""The months and years that a question names: what was said then is likelier meant. Pure."""

import re
from typing import Final

import msgspec

_MONTHS: Final = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
# "may" and "march" are more often verbs: as months they stand after a preposition or beside a number.
_NAMED: Final = re.compile(
    rf"\b(?:(?P<sure>{'|'.join(month for month in _MONTHS if month not in {'may', 'march'})})"
    r"|(?:in|of|since|until|during|last|this|early|late|\d{1,2}(?:st|nd|rd|th)?) (?P<after>may|march)"
    r"|(?P<before>may|march),? \d+(?:st|nd|rd|th)?)\b",
    re.IGNORECASE,
)
_YEAR: Final = re.compile(r"\b(?:19|20)\d\d\b")
_ISO: Final = re.compile(r"\b((?:19|20)\d\d)-(0[1-9]|1[0-2])\b")


class Period(msgspec.Struct, frozen=True):
    """A month, a year, or a month of a year; None where the question leaves it open."""

    year: str | None
    month: str | None


def period(query: str) -> Period | None:
    """The first period that a question names, if it names one."""
    if iso := _ISO.search(query):
        return Period(year=iso[1], month=iso[2])
    year = _YEAR.search(query)
    named = _NAMED.search(query)
    if not (year or named):
        return None
    month = named and (named["sure"] or named["after"] or named["before"]).lower()
    return Period(year=year[0] if year else None, month=f"{_MONTHS.index(month) + 1:02}" if month else None)


def within(time: str, asked: Period) -> bool:
    """Whether an RFC 3339 time lies in a period."""
    return (asked.year is None or time[:4] == asked.year) and (asked.month is None or time[5:7] == asked.month)
