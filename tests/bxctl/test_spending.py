"""`bxctl usage`, `cost`, `models`: what is asked and shown; tables that fit a terminal of 80 columns; bars."""

from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bxctl import charts
from proto.messages import egress
from tests.bxctl.conftest import Bxctl
from tests.bxctl.fakes import Fakes

S = "chat-20260924-210203-0a1b2c"
USED = egress.UsageRow(
    destination="anthropic",
    model="claude-sonnet-5-20260924",
    status=200,
    calls=1200,
    input_tokens=34_000_000,
    output_tokens=123_456,
    cache_read_tokens=9_999,
)
COST = egress.CostRow(
    session=S,
    calls=12,
    nusd=1_234_567_890,
    metered_tokens=34_000,
    unpriced_models=[],
    unpriced_tokens=0,
    plan_tokens=0,
    harness_tokens=0,
)


def used(**parts: Any) -> egress.UsageRow:
    return msgspec.structs.replace(USED, **parts)


def cost(**parts: Any) -> egress.CostRow:
    return msgspec.structs.replace(COST, **parts)


def cells(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


def test_usage_has_a_row_for_each_model_and_who_pays(bxctl: Bxctl, fakes: Fakes) -> None:
    rows = [
        USED,
        used(status=429, calls=3, input_tokens=None, output_tokens=None, cache_read_tokens=None),
        used(billing="plan", model="m"),
        used(billing="plan", source="harness", model="m"),
    ]
    fakes.answer("owner-egress", egress.Usage, egress.UsageReply(rows=rows))
    with fakes.serving():
        result = bxctl("usage", "--since", "2026-09-24", "--session", S)
    assert cells(result.out) == [
        ["destination", "model", "calls", "in", "out", "cached", "how"],
        ["anthropic", "claude-sonnet-5-20260924", "1,200", "34.0M", "123.5k", "9,999", "metered"],
        ["anthropic", "claude-sonnet-5-20260924", "3", "(429)", "-", "-", "-", "metered"],
        ["anthropic", "m", "1,200", "34.0M", "123.5k", "9,999", "plan"],
        ["anthropic", "m", "1,200", "34.0M", "123.5k", "9,999", "harness"],
    ]
    assert max(map(len, result.out.splitlines())) <= 80
    assert fakes.one(egress.Usage) == egress.Usage(since="2026-09-24T00:00:00Z", session=S)


def test_usage_by_day_is_asked_by_day(bxctl: Bxctl, fakes: Fakes) -> None:
    rows = [used(day="2026-11-30"), used(day="2026-11-29", model="m", input_tokens=17_000_000)]
    fakes.answer("owner-egress", egress.Usage, egress.UsageReply(rows=rows))
    with fakes.serving():
        table = bxctl("usage", "--by", "day")
        chart = bxctl("usage", "--by", "day", "--chart")
        wrong = bxctl("usage", "--by", "week")
    assert fakes.asked[0].by_day
    assert [row[0] for row in cells(table.out)] == ["day", "2026-11-30", "2026-11-29"]
    (first, second) = chart.out.splitlines()
    assert first.startswith("2026-11-30  34.1M  █")
    assert len(first) == 80
    assert 0.49 < second.count("█") / first.count("█") < 0.51
    assert wrong.code == 2


def test_a_chart_counts_what_the_egress_saw_and_once(bxctl: Bxctl, fakes: Fakes) -> None:
    rows = [USED, used(status=429), used(source="harness"), used(model="none", input_tokens=None, output_tokens=None)]
    fakes.answer("owner-egress", egress.Usage, egress.UsageReply(rows=rows))
    with fakes.serving():
        chart = bxctl("usage", "--chart")
    (line,) = chart.out.splitlines()
    assert line.startswith("anthropic claude-sonnet-5-20260924  68.2M  █")


def test_cost_shows_money_and_beside_it_what_has_none(bxctl: Bxctl, fakes: Fakes) -> None:
    rows = [
        COST,
        cost(session="chat-2", unpriced_models=["new-1"], unpriced_tokens=12_345, nusd=99),
        cost(session="chat-3", nusd=0, metered_tokens=0, plan_tokens=5, harness_tokens=6),
        cost(session="chat-4", partial=1, nusd=5_000_000),
    ]
    fakes.answer("owner-egress", egress.Cost, egress.CostReply(rows=rows, total_nusd=1_239_567_989, problem=None))
    with fakes.serving():
        result = bxctl("cost", "--since", "2026-09-24")
        chart = bxctl("cost", "--chart")
        for_scripts = bxctl("cost", "--json").json
    assert cells(result.out) == [
        ["session", "calls", "cost", "unpriced", "plan", "harness"],
        [S, "12", "$1.2346", "-", "-", "-"],
        ["chat-2", "12", "<$0.0001+", "12.3k", "-", "-"],
        ["chat-3", "12", "-", "-", "5", "6"],
        ["chat-4", "12", "$0.0050+", "-", "-", "-"],
    ]
    assert max(map(len, result.out.splitlines())) <= 80
    assert fakes.asked[0] == egress.Cost(since="2026-09-24T00:00:00Z", session=None)
    assert chart.out.splitlines()[0].startswith(f"{S}  ")
    assert [row["nusd"] for row in for_scripts["rows"]] == [1_234_567_890, 99, 0, 5_000_000]


def test_prices_that_cannot_be_read_are_said_and_the_rest_is_shown(bxctl: Bxctl, fakes: Fakes) -> None:
    fakes.answer("owner-egress", egress.Cost, egress.CostReply(rows=[COST], total_nusd=1, problem="line 3: models.a"))
    with fakes.serving():
        result = bxctl("cost")
    assert result.code == 4
    assert S in result.out
    assert "line 3: models.a; until it is mended no model has a price (runbook: prices-invalid)" in result.err


def test_models_are_asked_of_a_destination(bxctl: Bxctl, fakes: Fakes) -> None:
    row = egress.ModelRow(
        destination="acme", model="m-1", priced_as="m", input="1", output="2", cache_read="0.1", cache_write=None
    )
    bare = egress.ModelRow(
        destination="acme", model="x", priced_as=None, input=None, output=None, cache_read=None, cache_write=None
    )
    fakes.answer("owner-egress", egress.Models, egress.ModelsReply(models=[row, bare], source=None, problem=None))
    with fakes.serving():
        result = bxctl("models", "acme")
    assert fakes.one(egress.Models).destination == "acme"
    assert cells(result.out)[1:] == [
        ["acme", "m-1", "1", "2", "0.1", "/", "-", "m"],
        ["acme", "x", "-", "-", "-", "-"],
    ]


@pytest.mark.parametrize("words", [["usage"], ["cost"], ["models"], ["prices"], ["prices", "import"]])
def test_help_has_an_example(bxctl: Bxctl, words: list[str]) -> None:
    assert "Example: bxctl" in bxctl(*words, "--help").out


@given(st.integers(0, 10**15))
@example(999_950_000_000)
@example(999_949_999_999)
def test_a_number_is_short_and_near(number: int) -> None:
    shown = charts.count(number)
    scale = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}.get(shown[-1], 1)
    assert len(shown) <= 6 or number >= 999_950 * 10**9
    near = float(shown.rstrip("kMGT").replace(",", "")) * scale
    assert abs(near - number) <= (0 if scale == 1 else scale * 0.0501)
    assert not shown.startswith("1,000.0") or number >= 999_950 * 10**9


@pytest.mark.parametrize(
    ("nusd", "shown"),
    [
        (0, "$0.0000"), (1, "<$0.0001"), (100_000, "$0.0001"), (1_234_567_890, "$1.2346"),
        (12_345_678_900_000_000, "$12,345,678.9000"),
    ],
)  # fmt: skip
def test_money_to_a_hundredth_of_a_cent(nusd: int, shown: str) -> None:
    assert charts.dollars(nusd) == shown
    assert charts.dollars(nusd, floor=True) == f"{shown}+"


bars = st.builds(
    charts.Bar, st.text("ab ", max_size=50), st.integers(0, 10**12), st.text("0123", min_size=1, max_size=9)
)


@given(st.lists(bars, max_size=6), st.integers(20, 200))
def test_bars_are_as_long_as_their_values_and_fit(rows: list[charts.Bar], width: int) -> None:
    lines = charts.bars(rows, width)
    assert len(lines) == len(rows)
    assert all(len(line) <= max(width, 36 + 9 + 4 + 8) for line in lines)
    blocks = [sum(line.count(block) for block in "█▏▎▍▌▋▊▉") for line in lines]
    for row, block in zip(rows, blocks, strict=True):
        assert (block == 0) is (row.value == 0)
    ordered = sorted(zip([row.value for row in rows], blocks, strict=True))
    assert [block for _, block in ordered] == sorted(blocks)
