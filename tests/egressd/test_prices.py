"""prices.toml: which name prices a model, what a use costs to the last nano-dollar, a file that changes or is damaged."""

import itertools
import os
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd.meter.usage import Usage
from egressd.prices import Price, Prices, cost, most, priced_as, read
from proto.faults import Fault

usd = st.decimals(0, 1000, places=6, allow_nan=False)
some = st.none() | usd
prices = st.builds(Price, input=usd, output=usd, cache_read=some, cache_write=some, cache_write_1h=some)
counts = st.integers(0, 2_000_000)

EXAMPLE = """
source = "the owner"

[models."qwen3.8-27b"]
input = 0.20
output = 0.60
cache_read = 0.05
cache_write = 0.25
"""


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("claude-sonnet-5", "claude-sonnet-5"),
        ("claude-sonnet-5-20260924", "claude-sonnet-5"),
        ("claude-sonnet-5@20260924", "claude-sonnet-5"),
        ("claude-sonnet-5:latest", "claude-sonnet-5"),
        ("claude-sonnet-5.1", "claude-sonnet-5"),
        ("claude-sonnet-50", None),
        ("claude-sonnet-5-5", "claude-sonnet-5-5"),
        ("claude-sonnet-5-5-20260924", "claude-sonnet-5-5"),
        ("claude-sonnet-5-50", "claude-sonnet-5"),
        ("claude-sonnet", None),
        ("anthropic/claude-sonnet-5", None),
        ("claude-sonnet-5 ", None),
        ("", None),
        ("-", None),
    ],
)
def test_a_name_prices_what_begins_with_it_up_to_a_boundary(model: str, name: str | None) -> None:
    assert priced_as(model, dict.fromkeys(["claude-sonnet-5", "claude-sonnet-5-5"])) == name


names = st.text("ab-.:@", max_size=6)


@given(names, st.lists(names))
def test_the_longest_name_wins_whatever_else_is_listed(model: str, listed: list[str]) -> None:
    fits = [
        name for name in listed if model == name or (name and model.startswith(name) and model[len(name)] in "-.:@")
    ]
    assert priced_as(model, dict.fromkeys(listed)) == max(fits, key=len, default=None)


@given(prices, st.lists(counts, min_size=5, max_size=5))
def test_a_use_costs_the_sum_of_its_parts_to_the_nano_dollar(price: Price, parts: list[int]) -> None:
    uncached, read, short, long, output = parts
    usage = Usage(
        input_tokens=uncached + read + short + long,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_5m_tokens=short,
        cache_write_1h_tokens=long,
    )
    each = [price.input, price.reading, price.writing, price.writing_1h, price.output]
    exact = sum((Fraction(usd) * count * 1000 for usd, count in zip(each, parts, strict=True)), Fraction(0))
    assert abs(cost(price, usage) - exact) <= Fraction(1, 2)
    assert cost(price, usage) <= most(price, usage.input_tokens or 0, output)


@given(prices)
def test_what_has_no_price_of_its_own_counts_as_what_is_nearest(price: Price) -> None:
    assert price.reading == (price.input if price.cache_read is None else price.cache_read)
    assert price.writing == (price.input if price.cache_write is None else price.cache_write)
    assert price.writing_1h == (price.writing if price.cache_write_1h is None else price.cache_write_1h)


def test_prices_are_exact_as_they_are_written(home: Path) -> None:
    (home / "prices.toml").write_text(EXAMPLE)
    table = read(home / "prices.toml")
    price = table.models["qwen3.8-27b"]
    assert (price.input, price.output, price.cache_write_1h) == (Decimal("0.20"), Decimal("0.60"), None)
    usage = Usage(input_tokens=1_000_000, output_tokens=1_000_000, cache_read_tokens=400_000)
    assert cost(price, usage) == 120_000_000 + 20_000_000 + 600_000_000


def test_the_file_is_read_again_when_it_changes(home: Path) -> None:
    found = Prices(home)
    path, ticks = home / "prices.toml", itertools.count(1)

    def write(text: str) -> None:
        path.write_text(text)
        os.utime(path, ns=(next(ticks), next(ticks)))

    assert (found.find("qwen3.8-27b"), found.problem, found.source) == (None, None, None)
    write(EXAMPLE)
    assert found.find("qwen3.8-27b-fp8") is not None
    assert found.source == "the owner"
    write(EXAMPLE.replace("0.60", "-1"))
    assert found.find("qwen3.8-27b") is None
    assert "output is a price of 0 or more US dollars per million tokens" in (found.problem or "")
    write(EXAMPLE)
    assert (found.find("qwen3.8-27b") is None, found.problem) == (False, None)
    path.unlink()
    assert (found.find("qwen3.8-27b"), found.problem) == (None, None)


DAMAGED = [
    ("[models.a]\noutput = 1\n", "missing required field `input`"),
    ("[models.a]\ninput = 1\noutput = nan\n", "output is a price"),
    ("[models.a]\ninput = inf\noutput = 1\n", "input is a price"),
    ("[models.a]\ninput = true\noutput = 1\n", "line 2: models.a.input"),
    ('[models.a]\ninput = 1\noutput = 1\ncache = "x"\n', "line 4: models.a.cache: unknown key"),
    ("[models\n", "not TOML"),
    ("\xff", "cannot be read"),
]


@pytest.mark.parametrize(("text", "says"), DAMAGED)
def test_a_damaged_file_is_told_with_its_place(home: Path, text: str, says: str) -> None:
    (home / "prices.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(Fault) as caught:
        read(home / "prices.toml")
    assert caught.value.code == "prices-invalid"
    assert says in caught.value.message
    assert Prices(home).problem == caught.value.message


@pytest.mark.parametrize("what", ["folder", "fifo", "nowhere", "large"])
def test_what_is_no_file_of_settings_is_told_and_not_waited_for(home: Path, what: str) -> None:
    path = home / "prices.toml"
    match what:
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "nowhere":
            path.symlink_to(home / "none")
        case _:
            path.write_text("#" * ((1 << 20) + 1))
    assert str(path) in (Prices(home).problem or "")
