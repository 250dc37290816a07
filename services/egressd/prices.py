"""`{home}/prices.toml`: what models cost, read again when it changes. A model that it does not name is unpriced.

A model is priced by its exact name, or else by the longest name in the table that it begins with and after which comes
`-`, `.`, `:` or `@`: `claude-sonnet-5` prices its dated releases, and never `claude-sonnet-50`.
"""

import math
import os
import stat
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec

from egressd.meter.usage import Usage
from egressd.spend import MOST
from egressd.stamp import Stamp, stamp_of
from proto.escape import clip
from proto.faults import Fault
from proto.role.config import load

FILE: Final = "prices.toml"
_BOUNDARIES: Final = "-.:@"
_NUSD_PER_TOKEN: Final = 1000
"""Nano-dollars a token, of a price of one US dollar per million."""
_LARGEST_BYTES: Final = 1 << 20
_LONGEST_CAUSE_CHARS: Final = 300


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The prices of a model, in US dollars per million tokens.

    Reads from the cache and writes to it that have no price of their own count as input; writes for an hour as those
    for five minutes.
    """

    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    cache_write_1h: Decimal | None = None

    def __post_init__(self) -> None:
        """Refuse what is no price."""
        for field in self.__struct_fields__:
            value = getattr(self, field)
            if value is not None and not (value.is_finite() and 0 <= value <= 10**9):
                raise ValueError(f"{field} is a price of 0 or more US dollars per million tokens")

    @property
    def reading(self) -> Decimal:
        """The price of what is read from the cache."""
        return self.input if self.cache_read is None else self.cache_read

    @property
    def writing(self) -> Decimal:
        """The price of what is written to the cache for five minutes."""
        return self.input if self.cache_write is None else self.cache_write

    @property
    def writing_1h(self) -> Decimal:
        """The price of what is written to the cache for an hour."""
        return self.writing if self.cache_write_1h is None else self.cache_write_1h


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole of prices.toml."""

    models: dict[str, Price] = {}
    source: str | None = None
    """Where imported prices come from, in the owner's or `bxctl prices import`'s words."""


class Prices:
    """The prices in a home."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        self._stamp: Stamp | None = None
        self._table = Table()
        self._problem: str | None = None

    def table(self) -> Mapping[str, Price]:
        """Every price by the name that it is listed under; none when the file cannot be used."""
        self._look()
        return self._table.models

    @property
    def problem(self) -> str | None:
        """What is wrong with the file, with its line and key; every model is unpriced as long as it is."""
        self._look()
        return self._problem

    @property
    def source(self) -> str | None:
        """The file's own note of where its prices come from."""
        self._look()
        return self._table.source

    def find(self, model: str) -> Price | None:
        """The price of a model; None when it is unpriced."""
        table = self.table()
        name = priced_as(model, table)
        return None if name is None else table[name]

    def _look(self) -> None:
        stamp = stamp_of(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._table, self._problem = read(self._path), None
        except Fault as fault:
            self._table, self._problem = Table(), fault.message


def read(path: Path) -> Table:
    """The table in a file, prices to the digit as they are written; an empty one when there is no file.

    Raises:
        Fault: `prices-invalid`, with the file, the line and the key.

    """
    if not os.path.lexists(path):
        return Table()
    try:
        return msgspec.convert(tomllib.loads(_text(path), parse_float=Decimal), Table)
    except (OSError, ValueError, RecursionError) as error:
        problem = f"{path}: {clip(str(error), _LONGEST_CAUSE_CHARS)}"
    try:
        # Once more for the line and the key. Numbers lose digits this way, so it is not the one that counts.
        load(path, Table)
    except Fault as fault:
        problem = fault.message
    raise Fault("prices-invalid", problem)


def _text(path: Path) -> str:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_BYTES:
        raise OSError("it is not a file of settings")
    return path.read_text(encoding="utf-8")


def priced_as(model: str, names: Mapping[str, Any]) -> str | None:
    """The name in a table that prices a model, or None."""
    if model in names:
        return model
    places = [at for at, character in enumerate(model) if character in _BOUNDARIES]
    return next((model[:at] for at in reversed(places) if at and model[:at] in names), None)


def cost(price: Price, usage: Usage) -> int:
    """What a use costs, in whole nano-dollars."""
    sums = (
        price.input * usage.uncached
        + price.reading * (usage.cache_read_tokens or 0)
        + price.writing * (usage.cache_write_5m_tokens or 0)
        + price.writing_1h * (usage.cache_write_1h_tokens or 0)
        + price.output * (usage.output_tokens or 0)
    )
    return round(sums * _NUSD_PER_TOKEN)


def most(price: Price, input_tokens: int, output_tokens: int) -> int:
    """What a call can cost at most, in whole nano-dollars: all of its input at the dearest of its kinds."""
    dearest = max(price.input, price.reading, price.writing, price.writing_1h)
    sums = (dearest * input_tokens + price.output * output_tokens) * _NUSD_PER_TOKEN
    return min(math.ceil(sums), MOST)
