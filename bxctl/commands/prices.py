"""`bxctl prices`, `bxctl prices import`: the prices of models in `{home}/prices.toml`."""

import hashlib
from pathlib import Path
from typing import Annotated, Final

import typer

from bxctl import exits, pricelist, render
from bxctl.options import Home, Json
from bxctl.places import Box, find
from proto.escape import clip
from proto.faults import Fault
from proto.messages.egress import ModelRow, Models, ModelsReply
from proto.role import durable
from proto.role.clock import now, stamp

group = typer.Typer(invoke_without_command=True, rich_markup_mode=None)
_FILE: Final = "prices.toml"
_LARGEST_BYTES: Final = 64 << 20
_MOST_WRITTEN_BYTES: Final = 1 << 20
"""What egressd reads of settings."""


@group.callback()
def prices(context: typer.Context, home: Home = None, json: Json = False) -> int:
    """List the prices in force, in US dollars per million tokens; exits 4 when prices.toml cannot be used.

    Example: bxctl prices
    """
    if context.invoked_subcommand is not None:
        return exits.OK
    reply: ModelsReply = find(home).ask("owner-egress", Models(), ModelsReply)
    rows = _listed(reply.models)
    if json:
        render.as_json({"prices": rows, "source": reply.source, "problem": reply.problem})
    else:
        told = ((row.model, row.input, row.output, row.cache_read, row.cache_write) for row in rows)
        headers = ("model", "in", "out", "cache read", "cache write")
        render.table(headers, told, empty="prices.toml names no model; fill it in, or see: bxctl prices import --help")
        if reply.source is not None:
            render.line(f"from {reply.source}")
    if reply.problem is None:
        return exits.OK
    render.problem(f"{reply.problem} (runbook: prices-invalid)")
    return exits.PROBLEMS


@group.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="model_prices_and_context_window.json of LiteLLM")],
    only: Annotated[
        list[str] | None, typer.Option(metavar="PREFIX", help="Only models that begin so; may be given again")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask")] = False,
    home: Home = None,
    json: Json = False,
) -> int:
    """Take prices from LiteLLM's public list; your own entries stay as they are, and come before it.

    Download the list from github.com/BerriAI/litellm. Its hash and the day are noted in prices.toml, and the file as it
    was is kept as prices.toml.bak. Prices that hold only above a size of the prompt are not taken.

    Example: bxctl prices import model_prices_and_context_window.json --only claude- --only gpt-
    """
    box = find(home)
    box.need()
    data = _read(file, _LARGEST_BYTES)
    listed = pricelist.read(data, only or ())
    if not listed.models:
        raise Fault("prices-invalid", f"{clip(str(file), 200)} has no price of such a model")
    path = box.file(_FILE)
    before = _read(path, _MOST_WRITTEN_BYTES).decode("utf-8", "replace") if path.exists() else ""
    digest = hashlib.sha256(data).hexdigest()
    source = f"LiteLLM's price list, sha256 {digest}, imported {stamp(now())[:10]}"
    after = pricelist.joined(before, listed.models, source)
    if len(after.encode()) > _MOST_WRITTEN_BYTES:
        raise Fault("prices-invalid", "the list is too long for prices.toml; name the models that you use with --only")
    told = _told(before, after, listed, digest)
    if not json:
        for line in told.values():
            render.line(str(line))
    if not yes and not _agreed(box, json):
        return exits.FAILED
    _write(path, before, after)
    if json:
        render.as_json(told)
    else:
        render.line(f"written: {path}" + (f" (as it was: {_FILE}.bak)" if before else ""))
    return exits.OK


def _listed(rows: list[ModelRow]) -> list[ModelRow]:
    """A row for each name that prices a model."""
    by_name = {row.priced_as: row for row in rows if row.priced_as is not None}
    return [
        ModelRow(
            destination=None,
            model=name,
            priced_as=name,
            input=row.input,
            output=row.output,
            cache_read=row.cache_read,
            cache_write=row.cache_write,
        )
        for name, row in sorted(by_name.items())
    ]


def _told(before: str, after: str, listed: pricelist.Listed, digest: str) -> dict[str, str]:
    """What an import does, in words."""
    mine = pricelist.models_of(pricelist.owners_part(before))
    was, now_ = pricelist.models_of(before), pricelist.models_of(after)
    new = len(now_.keys() - was.keys())
    gone = len(was.keys() - now_.keys())
    changed = sum(now_[name] != was[name] for name in now_.keys() & was.keys())
    kept = len(mine.keys() & listed.models.keys())
    taken = f"{len(listed.models):,} models taken, {listed.skipped:,} entries without a price"
    return {
        "list": f"list: sha256 {digest}, {taken}",
        "models": f"prices: {new:,} new, {changed:,} changed, {gone:,} no longer there; {kept:,} of your own kept",
    }


def _agreed(box: Box, json: bool) -> bool:
    if json or not render.is_conversation():
        raise Fault("prices-invalid", f"nothing is written without --yes: {box.command('prices', 'import')} … --yes")
    return typer.confirm("Write prices.toml?")


def _read(path: Path, most_bytes: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except OSError as error:
        raise Fault("prices-invalid", f"{clip(str(path), 200)}: {error.strerror}") from None
    if len(data) > most_bytes:
        raise Fault("prices-invalid", f"{clip(str(path), 200)}: longer than {most_bytes} bytes")
    return data


def _write(path: Path, before: str, after: str) -> None:
    try:
        if before:
            durable.replace(path.with_name(f"{_FILE}.bak"), before.encode())
        durable.replace(path, after.encode())
    except OSError as error:
        raise Fault("prices-invalid", f"{path}: {error.strerror}") from None
