"""The options that many commands have, in one spelling."""

from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from proto.escape import clip
from proto.ids import ApprovalId, is_session_id

MOST: Final = 10**18 - 1
"""What a number on the wire holds in any case."""

Home = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="The box's home [default: $BOXMAKER_HOME, then ~/.local/share/boxmaker]"),
]
Json = Annotated[bool, typer.Option("--json", help="For scripts: JSON")]
MemorySocket = Annotated[Path | None, typer.Option(metavar="PATH", help="memoryd's owner socket")]
AdminSocket = Annotated[Path | None, typer.Option(metavar="PATH", help="brokerd's owner socket")]


def session_id(text: str | None) -> str | None:
    """Take a session's id from the command line.

    Raises:
        typer.BadParameter: it has not the form of one.

    """
    if text is not None and not is_session_id(text):
        shown = clip(text, 80)
        raise typer.BadParameter(
            f"{shown} is no id of a session, such as chat-20260924-210203-0a1b2c; list them with: bxctl sessions"
        )
    return text


def approval_id(text: str) -> str:
    """Take an approval's id from the command line.

    Raises:
        typer.BadParameter: it has not the form of one.

    """
    try:
        return msgspec.convert(text, ApprovalId)
    except msgspec.ValidationError:
        shown = clip(text, 80)
        raise typer.BadParameter(
            f"{shown} is no id of an approval, such as ap-0123456789abcdef; list them with: bxctl approvals"
        ) from None
