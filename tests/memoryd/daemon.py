"""A real memoryd in a process of its own, and short ways to ask it."""

import itertools
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from proto import sockets
from proto.faults import Fault
from proto.labels import PRIVATE, Label
from proto.messages.broker import ToolRequest, ToolResponse
from proto.messages.memory import (
    Edits,
    EditsReply,
    MemoryAdmin,
    MemoryAdminReply,
    MemoryBlock,
    MemoryBlockReply,
    MemoryCall,
    SessionUpdated,
)
from proto.messages.wire import Ok, Ping
from proto.role.ask import ask
from tests.memoryd.box import append_records

START_S = 20.0


class Daemon:
    """memoryd, started by `start` on a home that may be used again."""

    def __init__(self, home: Path, *flags: str) -> None:
        self.home = home
        self._flags = flags or ("--home", str(home))
        self._calls = itertools.count(1)
        self._process: subprocess.Popen[str] | None = None
        self.loop, self.broker, self.owner = (
            sockets.socket(name).at(home) for name in ("loop-memory", "broker-memory", "owner-memory")
        )

    def start(self) -> "Daemon":
        """Start it and wait until it answers."""
        command = (sys.executable, "-m", "memoryd", "serve", *self._flags)
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        until = time.monotonic() + START_S
        while self._process.poll() is None:
            try:
                ask(self.owner, Ping(), Ok)
                return self
            except Fault:
                assert time.monotonic() < until
                time.sleep(0.01)
        raise AssertionError(self.stop())

    def stop(self) -> tuple[int, str]:
        """Stop it with SIGTERM; its exit code and what it said."""
        process = self._process
        assert process is not None
        process.terminate()
        _, said = process.communicate(timeout=START_S)
        self._process = None
        return process.returncode, said

    def restart(self) -> None:
        self.stop()
        self.start()

    def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def call(
        self,
        arguments: dict[str, Any],
        label: Label = PRIVATE,
        *,
        tool: str = "memory",
        session: str = "chat-a",
        call: str | None = None,
    ) -> ToolResponse:
        request = ToolRequest(session=session, call=call or f"call {next(self._calls)}", tool=tool, arguments=arguments)
        message = MemoryCall(request=request, taint=label.class_, untrusted=label.untrusted)
        reply: ToolResponse = ask(self.broker, message, ToolResponse)
        return reply

    def recall(self, query: str, k: int = 5, session: str = "chat-a") -> ToolResponse:
        return self.call({"query": query, "k": k}, tool="recall", session=session)

    def admin(self, command: Any, arg: str = "") -> str:
        reply: MemoryAdminReply = ask(self.owner, MemoryAdmin(command=command, arg=arg), MemoryAdminReply)
        return reply.text

    def block(self) -> str:
        reply: MemoryBlockReply = ask(self.loop, MemoryBlock(), MemoryBlockReply)
        return reply.text

    def edits(self) -> list[dict[str, Any]]:
        reply: EditsReply = ask(self.owner, Edits(last=1000), EditsReply)
        return reply.edits

    def log(self, session: str, *records: dict[str, Any]) -> None:
        """Append to a session's log, as loopd does."""
        append_records(self.home, session, *records)

    def updated(self, session: str) -> None:
        ask(self.loop, SessionUpdated(session=session), Ok)


def user(text: str) -> dict[str, Any]:
    return {"kind": "user", "text": text, "author": None}


def assistant(text: str) -> dict[str, Any]:
    return {"kind": "assistant", "content": text, "tool_calls": []}


def result(class_: str, *, untrusted: bool) -> dict[str, Any]:
    return {
        "kind": "tool_result", "call": "c", "name": "http_fetch", "content": "x", "class": class_, "untrusted": untrusted,
    }  # fmt: skip
