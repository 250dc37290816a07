"""LiteLLM's public price list (`model_prices_and_context_window.json`) as entries of prices.toml. No I/O.

Of a model's entry the prices per token are taken, to the digit. What it costs above a size of the prompt, by the image
or by the second is not: where a provider has such a price, the cost that is shown is a floor.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from proto.faults import Fault

MARKER: Final = "# --- imported; `bxctl prices import` writes all below this line anew ---"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+-]{0,119}")
_FIELDS: Final = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
    "cache_write_1h": "cache_creation_input_token_cost_above_1hr",
}
"""docs.litellm.ai "Custom pricing": US dollars a token."""
_MODES: Final = frozenset({"chat", "responses", "completion"})
_OWN_PREFIXES: Final = ("anthropic/", "dashscope/", "gemini/", "meta_llama/", "openai/", "xai/")
"""Providers that know their models by the name behind the prefix."""
_PER_MILLION: Final = Decimal(10**6)
_SOURCE: Final = re.compile(r"^source\s*=.*\n?", re.MULTILINE)
_TABLE: Final = re.compile(r"^\s*\[", re.MULTILINE)

Prices = dict[str, Decimal]


class Listed(NamedTuple):
    """What a list holds: the prices by model, and how many of its entries have none per token."""

    models: dict[str, Prices]
    skipped: int


def read(data: bytes, only: Sequence[str] = ()) -> Listed:
    """The models of a list that begin with one of the prefixes in `only`, or all.

    Raises:
        Fault: `prices-invalid`: it is no such list.

    """
    try:
        untrusted: Any = json.loads(data, parse_float=Decimal, parse_int=Decimal)
    except (ValueError, RecursionError):
        raise Fault("prices-invalid", "the price list is not JSON") from None
    if not isinstance(untrusted, dict):
        raise Fault("prices-invalid", "the price list is not a map from models to their prices")
    found: dict[str, Prices] = {}
    skipped = 0
    for name, entry in untrusted.items():
        prices = _prices(entry) if _NAME.fullmatch(name) else None
        if prices is None:
            skipped += name != "sample_spec"
        else:
            found[name] = prices
    for name, prices in list(found.items()):
        prefix = next((prefix for prefix in _OWN_PREFIXES if name.startswith(prefix)), "")
        found.setdefault(name.removeprefix(prefix), prices)
    wanted = {name: found[name] for name in sorted(found) if not only or name.startswith(tuple(only))}
    return Listed(wanted, skipped)


def _prices(entry: Any) -> Prices | None:
    if not isinstance(entry, dict) or entry.get("mode", "chat") not in _MODES:
        return None
    found = {ours: price for ours, theirs in _FIELDS.items() if (price := _per_million(entry.get(theirs))) is not None}
    # A list has zeros for what it does not know, too.
    return found if {"input", "output"} <= found.keys() and (found["input"] or found["output"]) else None


def _per_million(value: Any) -> Decimal | None:
    if not isinstance(value, Decimal) or not value.is_finite() or not 0 <= value <= 1000:
        return None
    return value * _PER_MILLION


def owners_part(text: str) -> str:
    """What of a prices.toml is the owner's: all above the marker, without the note of where prices come from."""
    mine = text.split(MARKER, maxsplit=1)[0]
    first = _TABLE.search(mine)
    at = first.start() if first else len(mine)
    return (_SOURCE.sub("", mine[:at]) + mine[at:]).strip()


def models_of(text: str) -> Mapping[str, Any]:
    """The entries of a prices.toml.

    Raises:
        Fault: `prices-invalid`: it is not TOML.

    """
    try:
        found = tomllib.loads(text, parse_float=Decimal).get("models", {})
    except tomllib.TOMLDecodeError as error:
        raise Fault("prices-invalid", f"prices.toml: not TOML: {error}") from None
    return found if isinstance(found, dict) else {}


def joined(text: str, models: Mapping[str, Prices], source: str) -> str:
    """A prices.toml with the owner's own entries as they are, and below them those of a list that he does not name."""
    mine = owners_part(text)
    named = models_of(mine)
    entries = (_entry(name, prices) for name, prices in models.items() if name not in named)
    return "\n".join([f"source = {json.dumps(source)}", "", *([mine, ""] if mine else []), MARKER, "", *entries])


def _entry(name: str, prices: Prices) -> str:
    lines = "".join(f"{field} = {prices[field].normalize():f}\n" for field in _FIELDS if field in prices)
    return f"[models.{json.dumps(name)}]\n{lines}"
