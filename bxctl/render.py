"""How things are shown: tables and lines that a person can read, JSON for scripts; nothing raw from elsewhere.

Every text is escaped here (`proto.escape`), so that no text of a model, a page or a file can move the cursor, hide, or
begin a line of its own. JSON is pure ASCII for the same reason.
"""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from proto.escape import escape_lines

_WHOLE_CHARS: Final = 32
_COLOURS: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


def coloured(stream: Any = None) -> bool:
    """Whether a stream (standard output, if none is named) takes colours: a terminal, unless `$NO_COLOR` is set."""
    return (stream or sys.stdout).isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, *, on: bool) -> str:
    """A text of our own in a colour, when `on`."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if on else text


def flat(untrusted_text: str, limit_chars: int | None = None) -> str:
    """A text as one safe line, cut to a length; one that a daemon has escaped already is left as it is."""
    shown = escape_lines(untrusted_text).replace("\n", "\\n").replace("\t", "\\t")
    return shown if limit_chars is None or len(shown) <= limit_chars else f"{shown[: limit_chars - 1]}…"


def lines(untrusted_text: str) -> None:
    """Print a text as a block: its line feeds stay, whatever else cannot be seen is shown as code."""
    print(escape_lines(untrusted_text).rstrip("\n"))


def line(*untrusted_parts: str) -> None:
    """Print parts as one line."""
    print(" ".join(map(flat, untrusted_parts)))


def heading(untrusted_text: str, *, on: bool) -> None:
    """Print one line that stands out, in bold when `on`."""
    print(paint(flat(untrusted_text), "bold", on=on))


def marked(mark: str, untrusted_text: str) -> None:
    """Print one line after a mark of our own, which may be painted."""
    print(mark, flat(untrusted_text))


def problem(untrusted_text: str) -> None:
    """Print a sentence of what went wrong on standard error."""
    text = escape_lines(untrusted_text)
    print(f"{paint('bxctl:', 'red', on=coloured(sys.stderr))} {text}", file=sys.stderr)


def as_json(value: Any) -> None:
    """Print a message, or what is made of built-in types, as JSON."""
    print(json.dumps(msgspec.to_builtins(value), indent=2))


def table(headers: Sequence[str], rows: Iterable[Sequence[str | None]], *, empty: str) -> None:
    """Print rows below headers; `empty` says what it means that there are none. None is shown as `-`."""
    shown = [["-" if cell is None else flat(cell) for cell in row] for row in rows]
    if not shown:
        print(empty)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colours = coloured()
    # In a pipe a row is a line, however long.
    console = Console(
        width=None if sys.stdout.isatty() else 10_000, no_color=not colours, highlight=False, markup=False
    )
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold" if colours else "")
    for header, column in zip(headers, zip(*shown, strict=True), strict=True):
        # An id is shown whole, however narrow the terminal: only what is long is folded.
        whole = max(map(len, column)) <= _WHOLE_CHARS
        justify: Literal["left", "right"] = "right" if all(map(_is_count, column)) else "left"
        grid.add_column(header, overflow="fold", no_wrap=whole, justify=justify)
    for row in shown:
        grid.add_row(*map(Text, row))
    with console.capture() as captured:
        console.print(grid)
    print("\n".join(row.rstrip() for row in captured.get().splitlines()))


def _is_count(cell: str) -> bool:
    return cell == "-" or cell.replace(",", "").isdigit()
