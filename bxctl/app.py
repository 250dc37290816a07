"""Typer's tree of commands: the only place that knows them all. Each module of `commands` registers its own."""

import inspect
from collections.abc import Callable
from typing import Annotated

import typer

from bxctl import contents, exits, places
from bxctl.commands import (
    approvals,
    backup,
    box,
    chat,
    context,
    credential,
    decisions,
    doctor,
    grants,
    init,
    install,
    memory,
    policy,
    prices,
    restore,
    sessions,
    spending,
    state,
)
from bxctl.providers import HOW_TO_NAME

# \b keeps the lines of a paragraph as they are.
_NAMING = "\n\n".join(f"\b\n{paragraph}" for paragraph in HOW_TO_NAME.split("\n\n"))
_EPILOGS = {"run": _NAMING, "up": _NAMING}


def _finish(code: object, **_: object) -> None:
    raise typer.Exit(code if isinstance(code, int) else exits.OK)


def _home(home: Annotated[str | None, typer.Option(metavar="PATH", help="The box's home")] = None) -> None:
    places.name(home)


def build() -> typer.Typer:
    """The tree."""
    app = typer.Typer(
        callback=_home,
        result_callback=_finish,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help=contents.ABOUT,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    verbs: dict[str, Callable[..., int]] = {
        "run": box.run,
        "init": init.init,
        "up": box.up,
        "install": install.install,
        "uninstall": install.uninstall,
        "chat": chat.chat,
        "sessions": sessions.sessions,
        "reindex": memory.reindex,
        "approvals": approvals.approvals,
        "approve": approvals.approve,
        "deny": approvals.deny,
        "decisions": decisions.decisions,
        "grants": grants.grants,
        "reopen": sessions.reopen,
        "usage": spending.usage,
        "cost": spending.cost,
        "models": spending.models,
        "destinations": state.destinations,
        "verify": state.verify,
        "doctor": doctor.doctor,
        "backup": backup.backup,
        "restore": restore.restore,
    }
    for name, verb in verbs.items():
        app.command(name, short_help=contents.one_line(name), epilog=_EPILOGS.get(name))(verb)
    for name, group in {
        "memory": memory.group,
        "context": context.group,
        "credential": credential.group,
        "policy": policy.group,
    }.items():
        app.add_typer(_whole(group), name=name, help=contents.one_line(name))
    # A command of its own as well, whose help says more.
    app.add_typer(_whole(prices.group), name="prices", short_help=contents.one_line("prices"))
    return app


def _whole(group: typer.Typer) -> typer.Typer:
    """A group whose page has the whole first sentence of each verb, where typer would cut it."""
    for verb in group.registered_commands:
        first, _, _ = (inspect.getdoc(verb.callback) or "").partition("\n\n")
        verb.short_help = " ".join(first.split())
    return group


def run(argv: list[str]) -> int:
    """Run a command line; the exit code."""
    try:
        build()(args=argv, prog_name="bxctl")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else exits.FAILED
    return exits.OK
