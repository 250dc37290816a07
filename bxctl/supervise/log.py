"""One log of all daemons, readable: `21:02:03 memoryd  ready socket=…`, on a terminal and in `state/bxctl/up.log`.

Daemons write one JSON object a line. What is no such line is shown as it came, escaped.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO

import msgspec

from bxctl.render import paint
from proto.canon import compact
from proto.escape import escape, escape_lines

_COLOURS: Final = {"memoryd": "cyan", "brokerd": "yellow", "egressd": "blue", "loopd": "green"}
_LEVELS: Final = {"warning": "yellow", "error": "red", "critical": "red"}
_KNOWN: Final = frozenset({"time", "level", "event", "daemon", "exception", "message", "runbook"})
_LONGEST_FILE_BYTES: Final = 8 << 20
_NAME_COLUMNS: Final = 14


class Entry(msgspec.Struct, frozen=True):
    """A line of a daemon's log, its texts escaped: the time of day, what it says, its level, and a traceback."""

    clock: str
    text: str
    level: str = "info"
    below: tuple[str, ...] = ()


def read(line: bytes) -> Entry:
    """What a line of a daemon's standard error says."""
    try:
        fields = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError:
        return Entry(_clock(None), escape(line.decode(errors="replace")))
    event = str(fields.get("event", ""))
    said = [escape(f"{event}: {fields['message']}" if "message" in fields else event)]
    said += [f"{escape(name)}={_value(value)}" for name, value in fields.items() if name not in _KNOWN]
    if (runbook := fields.get("runbook")) and f"runbook: {runbook}" not in said[0]:
        said.append(f"(runbook: {escape(str(runbook))})")
    trace = str(fields.get("exception", "")).splitlines()
    level = str(fields.get("level", "info"))
    return Entry(_clock(fields.get("time")), " ".join(said), level, tuple(map(escape, trace)))


class Log:
    """Writes entries to the file, and to a terminal if one is given."""

    def __init__(self, path: Path, terminal: TextIO | None, *, colours: bool) -> None:
        if path.exists() and path.stat().st_size > _LONGEST_FILE_BYTES:
            path.replace(path.with_name(f"{path.name}.1"))
        self._file = path.open("a", encoding="utf-8", errors="replace")
        path.chmod(0o600)
        self._terminal = terminal
        self._colours = colours

    def entry(self, program: str, entry: Entry) -> None:
        """Write an entry of a program."""
        self._write(f"{entry.clock} {program:<{_NAME_COLUMNS}} {entry.text}", self._file, entry.below)
        if self._terminal:
            name = paint(f"{program:<{_NAME_COLUMNS}}", _COLOURS.get(program, "dim"), on=self._colours)
            colour = _LEVELS.get(entry.level)
            text = paint(entry.text, colour, on=self._colours) if colour else entry.text
            self._write(f"{paint(entry.clock, 'dim', on=self._colours)} {name} {text}", self._terminal, entry.below)

    def own(self, text: str, level: str = "info") -> None:
        """Write an entry of bxctl itself."""
        self.entry("bxctl", Entry(_clock(None), escape(text), level))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, text: str, stream: TextIO, below: tuple[str, ...]) -> None:
        try:
            print(text, *(f"    {one}" for one in below), sep="\n", file=stream, flush=True)
        except OSError:
            # A terminal that has gone, or a full disk, must not stop the box.
            return


def _clock(time: Any) -> str:
    try:
        return datetime.fromisoformat(str(time)).astimezone(UTC).strftime("%H:%M:%S")
    except ValueError:
        return datetime.now(UTC).strftime("%H:%M:%S")


def _value(value: Any) -> str:
    text = escape(value) if isinstance(value, str) else escape_lines(compact(value))
    return f'"{text}"' if " " in text else text
