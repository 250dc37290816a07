"""The box on a host of its own, put there as `docs/install.md` says, and a scripted model that its new sessions use.

Features: follow a guide's commands as they stand there; serve the model again after each boot; talk over the owner's
socket; end a daemon by SIGKILL; read what units, logs and the home say.
"""

import contextlib
import functools
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from bxctl.systemd import environment
from bxctl.systemd.units import SYSTEM
from proto import sockets
from proto.faults import Fault
from proto.messages import loop
from proto.role.ask import ask_stream
from tests.deploy.host import Host, missing
from tests.e2e.box import CHAT_EVENTS, Said
from tests.fakes.model import FakeModel, Reply
from tests.shape import tree

SUDO: Final = """#!/bin/sh
# This host has none: what it would do, for root.
[ "$1" = -u ] && { user=$2; shift 2; [ "$1" = -- ] && shift; exec setpriv --reuid $user --regid $user --init-groups "$@"; }
exec "$@"
"""
MODEL: Final = f"{SYSTEM.home}/run/egress-model/scripted.sock"
_DESTINATION: Final = f'[destinations.scripted]\nbase_url = "unix:{MODEL}"\nceiling = "private"\n'
_MODEL_TABLE: Final = '[model]\ndestination = "scripted"\nname = "scripted-1"\n'
OTHERWISE: Final = "So be it."
"""What the model says beside its script."""
GUIDE: Final = tree.ROOT / "docs" / "install.md"


@functools.cache
def _cannot() -> str | None:
    if reason := missing():
        return reason
    try:
        environment.interpreter(shared=True)
    except Fault as fault:
        return fault.message
    return None


MARKS: Final = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.host,
    pytest.mark.timeout(180),
    pytest.mark.skipif(bool(_cannot()), reason=str(_cannot())),
]
"""Of every module whose tests are on such a host."""


def commands(section: str, until: str) -> list[str]:
    """The commands of a part of the guide, as they stand there."""
    text = GUIDE.read_text(encoding="utf-8")
    part = text[text.index(section) : text.index(until)]
    return [line.strip() for line in re.findall(r"^    (?:sudo|bxctl|systemctl|journalctl).*$", part, re.MULTILINE)]


class Boxed:
    """The box on a host, and a scripted model that its new sessions use."""

    def __init__(self, host: Host, script: Sequence[Reply] = ()) -> None:
        self.host = host
        self.model = FakeModel()
        self._script = list(script)
        self._models = contextlib.ExitStack()

    @property
    def home(self) -> Path:
        """The home, as this process may reach it."""
        return self.host.root / SYSTEM.home.lstrip("/")

    @property
    def has_model(self) -> bool:
        """Whether the embedded model is installed there."""
        return any((self.host.root / "opt/boxmaker").glob("lib/python3*/site-packages/xllamacpp"))

    def follow(self, command: str) -> str:
        """Do what the guide says, in the checkout; what was written."""
        return self.host.run("sh", "-c", f"cd {tree.ROOT} && {command}", timeout_s=150).stdout

    def edit(self, path: str, tables: str) -> None:
        """Put TOML tables into one of the owner's files, as an editor would; one that is there gets the new lines."""
        file = self.home / path
        text = file.read_text()
        for table in re.split(r"^(?=\[)", tables, flags=re.MULTILINE):
            header, _, lines = table.partition("\n")
            there = f"\n{header}\n"
            text = text.replace(there, f"{there}{lines}", 1) if header and there in text else f"{text}\n{table}"
        file.write_text(text)

    def serve(self, *script: Reply) -> None:
        """Serve the model, on a socket that egressd sees; again after each boot. Another script takes the old one's place."""
        self._script = list(script) or self._script
        self._models.close()
        path = self.host.root / MODEL.lstrip("/")
        self.model = self._models.enter_context(FakeModel(self._script, path, otherwise={"text": OTHERWISE}))
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)

    def close(self) -> None:
        """Serve no more."""
        self._models.close()

    def events(self, text: str, session: str | None = None) -> Iterator[Any]:
        """Say something to loopd over its owner's socket; the events."""
        path = sockets.socket("owner-loop").at(self.home)
        yield from ask_stream(path, loop.Chat(session=session, text=text), *CHAT_EVENTS, timeout_s=40)

    def chat(self, text: str, session: str | None = None) -> Said:
        """Say something, and wait for the end of the turn."""
        return Said(list(self.events(text, session)))

    def show(self, daemon: str, name: str) -> str:
        """A property of a daemon's unit."""
        command = ("systemctl", "show", f"--property={name}", "--value", f"boxmaker-{daemon}.service")
        return self.host.run(*command).stdout.strip()

    def kill(self, daemon: str) -> None:
        """End a daemon by SIGKILL."""
        self.host.run("systemctl", "kill", "--signal=KILL", f"boxmaker-{daemon}.service")

    def log(self, session: str) -> list[tuple[str, str]]:
        """What was said in a session, as its log has it: `user` or `assistant`, and the text."""
        path = self.home / "sessions" / session / "0.jsonl"
        records = [json.loads(line) for line in path.read_text().splitlines()]
        texts = ((record["kind"], record.get("text", record.get("content"))) for record in records)
        return [(kind, text) for kind, text in texts if kind in ("user", "assistant") and text]

    def answers(self, session: str) -> list[str]:
        """What the assistant said in a session."""
        return [text for kind, text in self.log(session) if kind == "assistant"]


@contextlib.contextmanager
def installed(script: Sequence[Reply] = ()) -> Iterator[Boxed]:
    """A host on which the guide was followed; at the end it is gone."""
    made = Boxed(Host(), script)
    try:
        made.host.boot()
        made.host.put("/usr/local/bin/sudo", SUDO, "755")
        (install,) = commands("## On a host", "Look at it:")
        assert install == "sudo make install"
        made.follow(install)
        made.edit("grants.toml", _DESTINATION)
        made.edit("config/loopd.toml", _MODEL_TABLE)
        made.host.run("systemctl", "restart", "boxmaker-loopd.service")
        made.serve()
        yield made
    finally:
        made.close()
        made.host.end()
