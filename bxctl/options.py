"""The options that many commands have, in one spelling."""

from pathlib import Path
from typing import Annotated

import typer

Home = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="The box's home [default: $BOXMAKER_HOME, then ~/.local/share/boxmaker]"),
]
Json = Annotated[bool, typer.Option("--json", help="For scripts: JSON")]
MemorySocket = Annotated[Path | None, typer.Option(metavar="PATH", help="memoryd's owner socket")]
AdminSocket = Annotated[Path | None, typer.Option(metavar="PATH", help="brokerd's owner socket")]
