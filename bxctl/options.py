"""The options that many commands have, in one spelling."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from proto.escape import clip
from proto.ids import ApprovalId, is_session_id
from proto.role.clock import now, parse, stamp

_MOST: Final = 10**18 - 1
"""What a number on the wire holds in any case."""


def at_most(last: int | None) -> int | None:
    """How many of a list are asked for, as it can go on the wire."""
    return None if last is None else min(last, _MOST)


Home = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="The box's home [default: $BOXMAKER_HOME, then ~/.local/share/boxmaker]"),
]
Owner = Annotated[
    str | None, typer.Option("--owner", metavar="NAME", help="Whose box it is [default: your login name]")
]
Json = Annotated[bool, typer.Option("--json", help="For scripts: JSON")]
MemorySocket = Annotated[Path | None, typer.Option(metavar="PATH", help="memoryd's owner socket")]
AdminSocket = Annotated[Path | None, typer.Option(metavar="PATH", help="brokerd's owner socket")]


_TAKEN: Final = "today, yesterday, 90m, 24h, 7d, 2w, 2026-09-24, 2026-09, or a time such as 2026-09-24T21:02:03Z"
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN: Final = re.compile(r"(?P<count>[0-9]{1,6})(?P<unit>[mhdw])")
_MONTH: Final = re.compile(r"[0-9]{4}-[0-9]{2}")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CLOCK: Final = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME: Final = re.compile(
    rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[Tt ]{_CLOCK}(?::[0-5][0-9](?:\.[0-9]{{1,9}})?)?(?P<zone>[Zz]|[+-]{_CLOCK})?"
)


def since(text: str | None) -> str | None:
    """Take a time from the command line: RFC 3339 in UTC. A day and a time without a zone are UTC's.

    Raises:
        typer.BadParameter: it is none; the sentence says what is taken.

    """
    return None if text is None else since_at(text, now())


def since_at(text: str, time: datetime) -> str:
    """What `since` takes, said at a time."""
    try:
        return stamp(_moment(text.strip(), time))
    except (ValueError, OverflowError):
        raise typer.BadParameter(f"{clip(text, 80)} is no time; say {_TAKEN} (all in UTC)") from None


def _moment(text: str, time: datetime) -> datetime:
    """The time that a text says; raises ValueError or OverflowError when it says none."""
    midnight = time.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if text in {"today", "yesterday"}:
        return midnight - timedelta(days=text == "yesterday")
    if span := _SPAN.fullmatch(text):
        return time - timedelta(**{_UNITS[span["unit"]]: int(span["count"])})
    if _MONTH.fullmatch(text):
        return parse(f"{text}-01T00:00:00Z")
    if _DAY.fullmatch(text):
        return parse(f"{text}T00:00:00Z")
    if found := _TIME.fullmatch(text):
        return parse(text.upper() if found["zone"] else f"{text}Z").astimezone(UTC)
    raise ValueError(text)


Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="today, 24h, 7d, 2026-09-24 or RFC 3339, in UTC", callback=since)
]


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
