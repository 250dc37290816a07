"""`bxctl policy show|eval`."""

from typing import Annotated, Any

import msgspec
import typer

from bxctl import exits, render
from bxctl.options import AdminSocket, Home, Json, session_id
from bxctl.places import find
from proto.labels import DataClass, parse_class
from proto.messages.broker import PolicyEval, PolicyEvalReply, PolicyModule, PolicyShow, PolicyShowReply

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
_ROW = "owner-broker"


@group.command()
def show(
    name: Annotated[str | None, typer.Argument(metavar="[MODULE]", help="Print this module's text")] = None,
    home: Home = None,
    admin_socket: AdminSocket = None,
    json: Json = False,
) -> int:
    """List the modules of the policy in force, or print one; exits 4 when every call is denied for a broken one.

    Example: bxctl policy show
    """
    reply: PolicyShowReply = find(home, None, admin_socket).ask(_ROW, PolicyShow(), PolicyShowReply)
    if json:
        render.as_json(reply)
    elif name is not None:
        render.lines(_named(reply.modules, name).text)
    else:
        rows = ((one.name, one.origin, f"{len(one.text.splitlines())}", one.problem) for one in reply.modules)
        render.table(("module", "origin", "lines", "left out because"), rows, empty="no modules")
    if reply.problem is None:
        return exits.OK
    render.problem(f"{reply.problem} (runbook: policy-invalid)")
    return exits.PROBLEMS


@group.command(name="eval")
def evaluate(  # noqa: PLR0917  (typer calls it by name)
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="http_fetch, recall, …")],
    arguments: Annotated[str, typer.Argument(metavar="JSON", help="The call's arguments")] = "{}",
    class_: Annotated[str, typer.Option("--class", metavar="CLASS", help="public, private or secret")] = "private",
    untrusted: Annotated[
        bool, typer.Option("--untrusted", help="As if the session had read untrusted content")
    ] = False,
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="As if this session asked", callback=session_id)
    ] = None,
    home: Home = None,
    admin_socket: AdminSocket = None,
    json: Json = False,
) -> int:
    """Ask what the policy would say to a call; nothing runs and nothing is logged.

    Example: bxctl policy eval http_fetch '{"url": "https://example.org/"}' --untrusted
    """
    asked = PolicyEval(
        tool=tool, arguments=_arguments(arguments), class_=_class(class_), untrusted=untrusted, session=session
    )
    reply: PolicyEvalReply = find(home, None, admin_socket).ask(_ROW, asked, PolicyEvalReply)
    if json:
        render.as_json(reply)
        return exits.OK
    render.line(f"{reply.verdict}: {', '.join(reply.reasons) or 'no reason given'}")
    render.line(f"grant: {reply.grant or 'none'}")
    print("facts:")
    render.lines(reply.facts)
    return exits.OK


def _named(modules: list[PolicyModule], name: str) -> PolicyModule:
    for module in modules:
        if module.name == name:
            return module
    raise typer.BadParameter(f"there is no module {name}; there are {', '.join(one.name for one in modules)}")


def _arguments(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text.encode(), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise typer.BadParameter(f"the arguments are no JSON object: {error}") from None


def _class(word: str) -> DataClass:
    try:
        return parse_class(word)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
