"""A whole box for a test: the real daemons as processes over real sockets in a home, and a model of the test's choice.

Features: start and stop each daemon or all; SIGKILL one and start it again; wait until every socket answers a ping; ask
any daemon as its real client would; say something in a chat and collect the events; read the logs that daemons wrote.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from proto import sockets
from proto.faults import Fault
from proto.messages import broker, loop
from proto.messages.wire import Ok, Ping
from proto.role.ask import ask, ask_stream
from tests.fakes.mattermost import FakeMattermost

DAEMONS: Final = ("memoryd", "brokerd", "egressd", "loopd")
CHAT_EVENTS: Final = (
    loop.ChatOpened,
    loop.ChatDelta,
    loop.ChatTool,
    loop.ChatApproval,
    loop.ChatLabel,
    loop.ChatDone,
    loop.ChatFailed,
)
_READY_SECONDS: Final = 20.0


class Box:
    """The daemons of one home."""

    def __init__(self, home: Path, *, model: str | None = None, environ: dict[str, str] | None = None) -> None:
        """`model` is the base_url of an OpenAI-chat server; with it the destination `scripted` is configured."""
        self.home = home
        self._environ = {**os.environ, **(environ or {})}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        (home / "config").mkdir(exist_ok=True)
        if model is not None:
            self.write("grants.toml", f'[destinations.scripted]\nbase_url = "{model}"\nceiling = "private"\n')
            self.write("config/loopd.toml", '[model]\ndestination = "scripted"\nname = "scripted-1"\n')

    def write(self, path: str, text: str) -> None:
        """Write one of the owner's files."""
        full = self.home / path
        full.parent.mkdir(mode=0o700, exist_ok=True)
        full.write_text(text)

    def start(self, *daemons: str) -> "Box":
        """Start daemons (all by default) and wait until their sockets answer."""
        for daemon in daemons or DAEMONS:
            command = [sys.executable, "-m", daemon, "serve", "--home", str(self.home)]
            config = self.home / "config" / f"{daemon}.toml"
            command += ["--config", str(config)] if config.exists() else []
            with (self.home / f"{daemon}.log").open("ab") as log:
                self._running[daemon] = subprocess.Popen(command, stderr=log, stdout=log, env=self._environ)
        for daemon in daemons or DAEMONS:
            self._wait_ready(daemon)
        return self

    def pid(self, daemon: str) -> int:
        """The process id of a running daemon."""
        return self._running[daemon].pid

    def alive(self, daemon: str) -> bool:
        """Whether a daemon that was started still runs."""
        return self._running[daemon].poll() is None

    def kill(self, daemon: str) -> None:
        """End a daemon by SIGKILL."""
        process = self._running.pop(daemon)
        process.kill()
        process.wait()

    def stop(self, *daemons: str) -> dict[str, int]:
        """End daemons (all by default) by SIGTERM; their exit codes."""
        names = daemons or tuple(reversed(self._running))
        codes: dict[str, int] = {}
        for name in names:
            process = self._running.pop(name)
            process.send_signal(signal.SIGTERM)
            try:
                codes[name] = process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                codes[name] = process.wait()
        return codes

    def log(self, daemon: str) -> str:
        """What a daemon wrote on its standard error, over all its starts."""
        return (self.home / f"{daemon}.log").read_text()

    def ask(self, socket: str, request: msgspec.Struct, *replies: type[msgspec.Struct], timeout_s: float = 30.0) -> Any:
        """Ask over a socket of the table, such as `owner-memory`; the one reply."""
        return ask(sockets.socket(socket).at(self.home), request, *replies, timeout_s=timeout_s)

    def name_mattermost(self, server: FakeMattermost, settings: str) -> None:
        """Name a Mattermost server beside what is there, with its bot's token and its owner; `settings` of loopd's."""
        self.write("credentials.env", f"MATTERMOST_TOKEN={server.bot_token}\n")
        (self.home / "credentials.env").chmod(0o600)
        self.write(
            "grants.toml",
            f'{(self.home / "grants.toml").read_text()}[destinations.mattermost]\nbase_url = "{server.url}"\n'
            'api = "mattermost"\ncredential = "MATTERMOST_TOKEN"\nceiling = "secret"\n'
            f'[mattermost]\nowner = "{server.owner["id"]}"\n',
        )
        settings = f'[mattermost]\nenabled = true\nowner = "@owner"\n{settings}'
        self.write("config/loopd.toml", (self.home / "config/loopd.toml").read_text() + settings)

    def open_session(self, session: str, destination: str, auth: str = "none") -> None:
        """Open a program's session at brokerd, as launcherd would: the owner's, private and trusted."""
        says = {
            "session": session, "new": True, "session_kind": "run", "principal": "owner", "principal_class": "secret",
            "domain": "dom-me", "destination": destination, "auth": auth, "tree": None, "task": None,
            "class": "private", "untrusted": False,
        }  # fmt: skip
        request = msgspec.convert({"kind": "session_open", **says}, broker.SessionOpen)
        self.ask("loop-broker", request, broker.SessionState)

    def chat_events(self, text: str, session: str | None = None, timeout_s: float = 30.0) -> Iterator[Any]:
        """Say something; the events as they come."""
        path = sockets.socket("owner-loop").at(self.home)
        yield from ask_stream(path, loop.Chat(session=session, text=text), *CHAT_EVENTS, timeout_s=timeout_s)

    def chat(self, text: str, session: str | None = None) -> "Said":
        """Say something and wait for the end of the turn."""
        return Said(list(self.chat_events(text, session)))

    def _wait_ready(self, daemon: str) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        rows = [row for row in sockets.served_by(daemon) if row.protocol == "frames" and row.requests]
        for row in rows:
            while True:
                try:
                    ask(row.at(self.home), Ping(), Ok, timeout_s=2)
                    break
                except Fault as fault:
                    if not self.alive(daemon) or time.monotonic() > deadline:
                        raise AssertionError(f"{daemon} is not ready: {fault}\n{self.log(daemon)}") from None
                    time.sleep(0.02)


class Said:
    """The events of one turn."""

    def __init__(self, events: list[Any]) -> None:
        self.events = events

    @property
    def session(self) -> str:
        """The session's id."""
        return str(self.of(loop.ChatOpened)[0].session)

    @property
    def text(self) -> str:
        """The whole answer.

        Raises:
            AssertionError: the turn ended without one.

        """
        done = self.of(loop.ChatDone)
        assert done, f"no answer: {self.events}"
        return str(done[0].text)

    @property
    def failed(self) -> loop.ChatFailed:
        """How the turn failed."""
        found: loop.ChatFailed = self.of(loop.ChatFailed)[0]
        return found

    def of(self, kind: type[msgspec.Struct]) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


@contextlib.contextmanager
def running(
    home: Path, *daemons: str, model: str | None = None, environ: dict[str, str] | None = None
) -> Iterator[Box]:
    """A box whose daemons (all by default) run inside the block."""
    box = Box(home, model=model, environ=environ)
    try:
        yield box.start(*daemons)
    finally:
        box.stop()


@contextlib.contextmanager
def in_threads(home: Path, server: FakeMattermost, model: str, settings: str) -> Iterator[Box]:
    """A box whose owner talks to it in threads of a Mattermost, once it is connected there."""
    box = Box(home, model=model)
    box.name_mattermost(server, settings)
    try:
        box.start()
        server.wait(lambda: server.connected, 20)
        yield box
    finally:
        box.stop()
