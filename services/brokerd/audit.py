"""`audit/decisions.jsonl`: what was decided, asked, answered, run and labelled; chained, and on disk before it happens.

Each line has `kind`: `decision` (before a call runs, or bytes leave), `result` (how it ended, under which label),
`approval` (asked, answered, lapsed, void), `session` (open, resume, label, close, reopen). `arguments` is a text that
can be erased.
"""

import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from brokerd.decide import Decision
from proto.canon import canonical, compact, digest
from proto.escape import clip
from proto.labels import Label
from proto.messages.wire import JournalState
from proto.role import durable
from proto.role.clock import Clock, stamp
from proto.role.journal import Journal
from proto.role.log import logger

FILE: Final = "decisions.jsonl"
TEXT_FIELDS: Final = ("arguments",)
_LONGEST_ARGUMENTS_CHARS: Final = 20_000
_MOST_BYTES: Final = 900_000
"""What one answer holds of the log; the rest is asked for by session, or read in the file."""
_BLOCK_BYTES: Final = 1 << 16
_QUICK_S: Final = 0.001
"""A disk that was as quick as this the last time is waited for in place: the way through a thread takes longer."""


class Audit:
    """The log, its only writer."""

    def __init__(self, home: Path, clock: Clock) -> None:
        self._folder = home / "audit"
        self._state = home / "state/brokerd"
        self._clock = clock
        self._journal = Journal(self._folder, FILE, self._state / "heads", TEXT_FIELDS)
        self._syncing = anyio.Lock(fast_acquire=True)
        self._on_disk = 0
        self._lately_s = math.inf
        """How long the disk took the last time."""

    def open(self) -> None:
        """Mend a torn last line, check the chain, and mark a break where there is one."""
        durable.make_folder(self._folder)
        durable.make_folder(self._state)
        durable.sweep_temporaries(self._state)
        torn, bad = self._journal.open()
        for cut in torn:
            logger().warning("journal-torn", path=str(cut.path), bytes_cut=cut.bytes_cut)
        for state in bad:
            logger().error("journal-damaged", path=str(state.path), first_bad=state.first_bad)
            self._journal.mark_break(FILE, {"kind": "chain_break", "time": self._now(), "first_bad": state.first_bad})

    def decision(self, call: dict[str, Any], decision: Decision, arguments: dict[str, Any]) -> None:
        """A decision on a call; `call` names it."""
        self._append("decision", _decided({**call, **_arguments(arguments)}, decision))

    def leaving(self, *decided: tuple[dict[str, Any], Decision]) -> None:
        """Calls and the decisions on bytes that would leave; they may when these are on disk (`on_disk`)."""
        said = {"kind": "decision", "time": self._now()}
        self._journal.append(FILE, *({**said, **_decided(*one)} for one in decided), sync=False)

    async def on_disk(self) -> None:
        """Wait until every line is on disk. Those who wait at once share one wait for it.

        Raises:
            OSError: a line is not.

        """
        count = self._journal.count
        async with self._syncing:
            if count <= self._on_disk:
                return
            end = self._journal.end(FILE)
            began_s = time.perf_counter()
            try:
                if self._lately_s < _QUICK_S:
                    end.sync()
                else:
                    await anyio.to_thread.run_sync(end.sync)
            except OSError:
                self._journal.doubt()
                raise
            self._lately_s = time.perf_counter() - began_s
            self._journal.synced(end)
            self._on_disk = max(self._on_disk, end.lines)

    def result(self, call: dict[str, Any], *, ok: bool, label: Label, session_label: Label) -> None:
        """How a call ended: the label of its result, and the session's with it."""
        self._append("result", {**call, "ok": ok, **_label(label), "session_label": _label(session_label)})

    def approval(self, event: str, approval: dict[str, Any], **more: Any) -> None:
        """An approval was asked, answered, lapsed, or became void."""
        shown = {key: clip(value, 200) if isinstance(value, str) else value for key, value in more.items()}
        self._append("approval", {"event": event, **approval, **shown})

    def session(self, event: str, session: str, label: Label, **more: str | None) -> None:
        """A session was opened, resumed, labelled, closed or reopened."""
        self._append("session", {"event": event, "session": session, **_label(label), **more})

    def last(self, count: int, session: str | None) -> list[dict[str, Any]]:
        """The last lines, of one session or of all, as they are stored; the newest last."""
        found: list[dict[str, Any]] = []
        size = 0
        for raw in _backwards(self._folder / FILE):
            try:
                line = msgspec.json.decode(raw)
            except msgspec.DecodeError:
                continue
            if not isinstance(line, dict) or session not in (None, line.get("session")):
                continue
            size += len(raw)
            if len(found) == count or size > _MOST_BYTES:
                break
            found.append(line)
        return found[::-1]

    def verify(self) -> list[JournalState]:
        """The state of the log's chain."""
        return [
            JournalState(path=f"audit/{state.path.name}", lines=state.lines, head=state.head, first_bad=state.first_bad)
            for state in self._journal.verify()
        ]

    def _append(self, kind: str, line: dict[str, Any]) -> None:
        self._journal.append(FILE, {"kind": kind, "time": self._now(), **line})
        # Its wait for the disk covers every line before it.
        self._on_disk = self._journal.count

    def _now(self) -> str:
        return stamp(self._clock())


def _decided(call: dict[str, Any], decision: Decision) -> dict[str, Any]:
    grant = decision.grant
    return {
        **call,
        "verdict": decision.verdict,
        "reasons": list(decision.reasons),
        "grant": grant.id if grant else None,
        "grant_sha256": grant.sha256 if grant else None,
        "policy": decision.policy,
        **_label(decision.label),
        "cites": [],
    }


def arguments_sha256(arguments: dict[str, Any]) -> str:
    """The hash that an approval is bound to; arguments with a float, which has no canonical form, go by their text."""
    try:
        return digest(canonical(arguments))
    except ValueError:
        return digest(compact(arguments).encode())


def _arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    text = compact(arguments)
    kept = {"arguments_sha256": arguments_sha256(arguments), "arguments": text[:_LONGEST_ARGUMENTS_CHARS]}
    return kept if len(text) <= _LONGEST_ARGUMENTS_CHARS else {**kept, "arguments_chars": len(text)}


def _label(label: Label) -> dict[str, Any]:
    return {"class": label.class_.value, "untrusted": label.untrusted}


def _backwards(path: Path) -> Iterator[bytes]:
    """The complete lines of a file, the last one first."""
    if not path.exists():
        return
    with path.open("rb") as file:
        at = file.seek(0, os.SEEK_END)
        # What stands after the last line feed is not a complete line.
        rest, torn = b"", True
        while at:
            size = min(_BLOCK_BYTES, at)
            at -= size
            file.seek(at)
            rest, *lines = (file.read(size) + rest).split(b"\n")
            if lines and torn:
                lines.pop()
                torn = False
            yield from reversed([line for line in lines if line])
        if rest and not torn:
            yield rest
