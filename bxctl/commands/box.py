"""`bxctl up` and `bxctl run`: the box as processes of this command."""

import os
import sys
from typing import Annotated

import typer

from bxctl.options import Home
from bxctl.places import find


def up(
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Nothing on the terminal but what goes wrong")] = False,
    home: Home = None,
) -> int:
    """Start the daemons, show their log as one, start again what dies, stop all on ^C.

    The log is also in state/bxctl/up.log. Without a provider the embedded model runs too.

    Example: bxctl up --quiet
    """
    from bxctl.supervise import up as supervise

    return supervise.up(find(home), quiet=quiet)


def run(
    text: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]", help="One question; - reads it from stdin")
    ] = None,
    home: Home = None,
) -> int:
    """Set the box up if need be, start it, and chat; with TEXT, or $ASK, answer that and end.

    A box that is up already is used as it is. What the daemons say goes to state/bxctl/up.log.

    Example: bxctl run "what did I say about the launch?"
    """
    from bxctl.supervise import run as supervise

    question = " ".join(text) if text else os.environ.get("ASK") or None
    return supervise.run(find(home), sys.stdin.read() if question == "-" else question)
