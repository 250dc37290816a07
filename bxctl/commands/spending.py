"""`bxctl usage`, `cost`, `models`: what was used, what it cost, which models there are."""

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final, Literal

import typer

from bxctl import exits, render
from bxctl.charts import Bar, bars, count, dollars
from bxctl.options import Home, Json, Since, session_id
from bxctl.places import find
from proto.messages.egress import (
    Cost,
    CostReply,
    CostRow,
    ModelRow,
    Models,
    ModelsReply,
    Usage,
    UsageReply,
    UsageRow,
)

_ROW: Final = "owner-egress"
_PIPE_COLUMNS: Final = 80
_MODELS_S: Final = 60.0

Session = Annotated[str | None, typer.Option(metavar="ID", help="Only this session's", callback=session_id)]
Chart = Annotated[bool, typer.Option("--chart", help="Bars instead of a table")]


def usage(
    since: Since = None,
    session: Session = None,
    by: Annotated[Literal["model", "day"], typer.Option(help="A row a model, or a row a model and day")] = "model",
    chart: Chart = False,
    home: Home = None,
    json: Json = False,
) -> int:
    """List calls and tokens by destination and model, the most used first.

    `how` says who pays: metered on a key or gateway that the box holds; plan on a login, or with no key; harness is a
    program's own account, beside what the egress counted and never added to it.

    Example: bxctl usage --since 7d --by day --chart
    """
    asked = Usage(since=since, session=session, by_day=by == "day")
    reply: UsageReply = find(home).ask(_ROW, asked, UsageReply)
    if json:
        render.as_json(reply)
    elif chart:
        _chart(_usage_bars(reply.rows), empty="no model was called")
    else:
        day = ("day",) if by == "day" else ()
        headers = (*day, "destination", "model", "calls", "in", "out", "cached", "how")
        render.table(headers, map(_usage_row, reply.rows), empty="no model was called")
        _say(_usage_notes(reply.rows))
    return exits.OK


def cost(
    since: Since = None, session: Session = None, chart: Chart = False, home: Home = None, json: Json = False
) -> int:
    """List what sessions cost in US dollars, and in tokens what has no price: the dearest first.

    A `+` says that it cost more: a model without a price was used, or a call was cut before its count was known. Plan
    is what ran on a login or with no key; harness is a program's own account. Exits 4 when prices.toml cannot be used.

    Example: bxctl cost --since today
    """
    reply: CostReply = find(home).ask(_ROW, Cost(since=since, session=session), CostReply)
    if json:
        render.as_json(reply)
    elif chart:
        rows = [Bar(row.session, row.nusd, _money(row)) for row in reply.rows if row.nusd]
        _chart(rows, empty="nothing that has a price was called")
    else:
        headers = ("session", "calls", "cost", "unpriced", "plan", "harness")
        render.table(headers, map(_cost_row, reply.rows), empty="no model was called")
        _say(_cost_notes(reply))
    return _with_prices(reply.problem)


def models(
    destination: Annotated[str | None, typer.Argument(metavar="[DESTINATION]", help="As it lists them itself")] = None,
    home: Home = None,
    json: Json = False,
) -> int:
    """List the models that were used or have a price, or those that a destination lists itself, with their prices.

    Prices are US dollars per million tokens, of prices.toml; `priced as` is the name there, where it is another.

    Example: bxctl models openai
    """
    reply: ModelsReply = find(home).ask(_ROW, Models(destination=destination), ModelsReply, timeout_s=_MODELS_S)
    if json:
        render.as_json(reply)
    else:
        headers = ("destination", "model", "in", "out", "cache", "priced as")
        render.table(headers, map(model_row, reply.models), empty="no model was used, and none has a price")
    return _with_prices(reply.problem)


def model_row(row: ModelRow) -> tuple[str | None, ...]:
    """A model as a row: its prices, those of the cache as reads / writes."""
    cache = None if row.cache_read is None and row.cache_write is None else f"{row.cache_read} / {row.cache_write}"
    another = row.priced_as if row.priced_as != row.model else None
    return row.destination, row.model, row.input, row.output, cache and cache.replace("None", "-"), another


def _with_prices(problem: str | None) -> int:
    """The exit code; what is wrong with prices.toml is said."""
    if problem is None:
        return exits.OK
    render.problem(f"{problem}; until it is mended no model has a price (runbook: prices-invalid)")
    return exits.PROBLEMS


def _usage_row(row: UsageRow) -> tuple[str | None, ...]:
    tokens = (row.input_tokens, row.output_tokens, row.cache_read_tokens)
    calls = f"{row.calls:,}" if row.status == 200 else f"{row.calls:,} ({row.status})"
    how = "harness" if row.source == "harness" else row.billing
    return (
        *(() if row.day is None else (row.day,)),
        row.destination,
        row.model,
        calls,
        *(None if number is None else count(number) for number in tokens),
        how,
    )


def _usage_notes(rows: Sequence[UsageRow]) -> Iterator[str]:
    if any(row.status == 0 for row in rows):
        yield "(0): the connection ended before an answer"
    elif any(row.status != 200 for row in rows):
        yield "(403) and the like: the status of calls that were refused or failed"
    if partial := sum(row.partial for row in rows):
        yield f"partial: {partial:,}; the provider may have counted more than it told before these calls ended"
    up = sum(row.up_bytes or 0 for row in rows)
    down = sum(row.down_bytes or 0 for row in rows)
    if up or down:
        yield f"tunnels: {count(up)} bytes up, {count(down)} down; what is in them is not seen, nor counted in tokens"


def _usage_bars(rows: Iterable[UsageRow]) -> list[Bar]:
    sums: dict[str, int] = {}
    for row in rows:
        if row.source == "egress":
            label = row.day or f"{row.destination} {row.model}"
            sums[label] = sums.get(label, 0) + (row.input_tokens or 0) + (row.output_tokens or 0)
    return [Bar(label, tokens, count(tokens)) for label, tokens in sums.items() if tokens]


def _money(row: CostRow) -> str:
    return dollars(row.nusd, floor=bool(row.unpriced_models or row.partial))


def _cost_row(row: CostRow) -> tuple[str | None, ...]:
    paid = bool(row.nusd or row.metered_tokens or row.unpriced_models or row.partial)
    tokens = (row.unpriced_tokens, row.plan_tokens, row.harness_tokens)
    return (
        row.session,
        f"{row.calls:,}",
        _money(row) if paid else None,
        *(count(number) if number else None for number in tokens),
    )


def _cost_notes(reply: CostReply) -> Iterator[str]:
    floor = any(row.unpriced_models or row.partial for row in reply.rows)
    if reply.rows:
        yield f"total: {dollars(reply.total_nusd, floor=floor)}"
    unpriced = sorted({model or "(not named)" for row in reply.rows for model in row.unpriced_models})
    if unpriced:
        yield f"without a price: {', '.join(unpriced)}; name them in prices.toml, or see: bxctl prices import --help"


def _chart(rows: Sequence[Bar], *, empty: str) -> None:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_COLUMNS
    safe = [Bar(render.flat(row.label), row.value, row.shown) for row in rows]
    for line in bars(safe, width) or [empty]:
        print(line)


def _say(notes: Iterable[str]) -> None:
    """Notes below a table, for a person."""
    for note in notes:
        print(render.flat(note)) if sys.stdout.isatty() else None
