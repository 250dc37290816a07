"""How things are shown: tables and lines that a person can read, JSON for scripts; nothing raw from elsewhere.

Every text is escaped here (`proto.escape`), so that no text of a model, a page or a file can move the cursor, hide, or
begin a line of its own. JSON is pure ASCII for the same reason.
"""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec

from proto.escape import escape_lines

_WHOLE_CHARS: Final = 32
_FOLDED_CHARS: Final = 16
_GAP: Final = 2
_PIPE_CHARS: Final = 10_000
_COUNT: Final = re.compile(r"<?\$?[0-9,]+(?:\.[0-9]+)?[kMG]?\+?(?: \([0-9]+\))?")
"""A number, an amount of money, or one with a status behind it."""
_COLOURS: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}


def is_conversation() -> bool:
    """Whether a person can be asked here, and sees what is printed."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


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


def minute(time: str) -> str:
    """A time of RFC 3339 in UTC to the minute: `2026-09-24 21:02`."""
    return time[:16].replace("T", " ")


def lines(untrusted_text: str) -> None:
    """Print a text as a block: its line feeds stay, whatever else cannot be seen is shown as code."""
    print(escape_lines(untrusted_text).rstrip("\n"))


def report(untrusted_text: str) -> None:
    """Print a table that a daemon laid out below a heading, and the lines that follow an empty one.

    On a terminal that is too narrow each row is a block of lines, and what follows is folded between words.
    """
    text = escape_lines(untrusted_text).rstrip("\n")
    if not sys.stdout.isatty():
        print(text)
        return
    import shutil
    import textwrap

    width = shutil.get_terminal_size().columns
    rows, gap, after = text.partition("\n\n")
    heading_row, *others = rows.split("\n")
    if others and max(map(len, rows.split("\n"))) > width:
        starts = [at for at, char in enumerate(heading_row) if char != " " and heading_row[at - 1 : at] in {"", " "}]
        columns = list(zip(starts, [*starts[1:], None], strict=True))
        _blocks(heading_row.split(), [[row[begin:end].strip() for begin, end in columns] for row in others])
    else:
        print(rows)
    if gap:
        folded = (textwrap.fill(one, width, subsequent_indent="  ") for one in after.split("\n"))
        print("", *folded, sep="\n")


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
    import json

    print(json.dumps(msgspec.to_builtins(value), indent=2))


def table(headers: Sequence[str], rows: Iterable[Sequence[str | None]], *, empty: str) -> None:
    """Print rows below headers; `empty` says what it means that there are none. None is shown as `-`.

    In a pipe a row is one line, however long. On a terminal that is too narrow each row is a block of lines: an id is
    shown whole, and only what is long is folded.
    """
    shown = [["-" if cell is None else flat(cell) for cell in row] for row in rows]
    if not shown:
        print(empty)
        return
    import shutil

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_CHARS
    longest = [max(map(len, column)) for column in zip(headers, *shown, strict=True)]
    if sum(length + _GAP if length <= _WHOLE_CHARS else _FOLDED_CHARS for length in longest) > width:
        _blocks(headers, shown)
    else:
        _grid(headers, shown, [length <= _WHOLE_CHARS for length in longest], width)


def _grid(headers: Sequence[str], shown: list[list[str]], whole: list[bool], width: int) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colours = coloured()
    console = Console(width=width, no_color=not colours, highlight=False, markup=False)
    grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold" if colours else "")
    for header, column, is_whole in zip(headers, zip(*shown, strict=True), whole, strict=True):
        justify: Literal["left", "right"] = "right" if all(map(_is_count, column)) else "left"
        grid.add_column(header, overflow="fold", no_wrap=is_whole, justify=justify)
    for row in shown:
        grid.add_row(*map(Text, row))
    with console.capture() as captured:
        console.print(grid)
    print("\n".join(row.rstrip() for row in captured.get().splitlines()))


def _blocks(headers: Sequence[str], shown: list[list[str]]) -> None:
    for row in shown:
        heading(row[0], on=coloured())
        for header, cell in zip(headers[1:], row[1:], strict=True):
            if cell not in {"", "-"}:
                print(f"  {header}: {cell}")


def _is_count(cell: str) -> bool:
    return cell == "-" or _COUNT.fullmatch(cell) is not None
