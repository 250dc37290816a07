"""`bxctl chat` on a real terminal: streaming, the tool that runs, the label, an approval in place, ^C, ^D, history."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from proto.faults import Fault
from proto.labels import DataClass
from proto.messages import broker, loop, memory, wire
from proto.role.serve import Connection
from tests.bxctl import terminal
from tests.bxctl.fakes import Fakes
from tests.bxctl.test_chat import (
    APPROVAL,
    DONE,
    FAILED,
    FETCHED,
    OPENED,
    ROSE,
    ROW,
    RUNNING,
    SESSION,
    WANTED,
)

pytestmark = pytest.mark.measured


def _environ(home: Path) -> dict[str, str]:
    return {"BOXMAKER_HOME": str(home)}


class Asking:
    """A loopd whose turn waits for an approval: until it is answered here, or decided elsewhere.

    The first `away` answers find no brokerd.
    """

    def __init__(self, fakes: Fakes, *, elsewhere: bool = False, holds: bool = False, away: int = 0) -> None:
        self.away = away
        self.answers: list[broker.ApprovalAnswer] = []
        self.holds = holds
        self._elsewhere = elsewhere
        fakes.answer(ROW, loop.Chat, self._turn).answer(ROW, broker.ApprovalAnswer, self._answered)

    async def _turn(self, request: loop.Chat, connection: Connection) -> loop.ChatDone:
        events: tuple[Any, ...] = (OPENED, loop.ChatDelta(text="let me "), loop.ChatDelta(text="look"), RUNNING)
        for event in events:
            await connection.send(event)
        with anyio.fail_after(20):
            while self.holds:  # noqa: ASYNC110  (the other side is a thread)
                await anyio.sleep(0.01)
        await connection.send(WANTED)
        if self._elsewhere:
            await anyio.sleep(0.5)
        with anyio.fail_after(20):
            while not (self.answers or self._elsewhere):  # noqa: ASYNC110  (the other side is a thread)
                await anyio.sleep(0.01)
        ended: tuple[Any, ...] = (
            FETCHED,
            ROSE,
            loop.ChatDelta(text="an answer\n"),
            loop.ChatDelta(text="of two lines"),
        )
        for event in ended:
            await connection.send(event)
        return DONE

    async def _answered(self, request: broker.ApprovalAnswer, connection: Connection) -> wire.Ok:
        if self.away:
            self.away -= 1
            raise Fault("brokerd-unreachable")
        self.answers.append(request)
        return wire.Ok()


@pytest.mark.parametrize(
    ("key", "allow", "said"), [("y", True, "allowed"), ("N", False, "denied"), ("Yes", True, "allowed")]
)
def test_a_conversation_with_an_approval_answered_in_place(
    fakes: Fakes, home: Path, key: str, allow: bool, said: str
) -> None:
    asking = Asking(fakes)
    with fakes.serving(), terminal.running("chat", environ=_environ(home)) as screen:
        screen.wait_for("a new session begins")
        screen.type("héllo $HOME\r")
        screen.wait_for(f"session {SESSION} · local/m · private")
        screen.wait_for("let me look")
        screen.wait_for('▸ http_fetch {"url":"x"}')
        screen.wait_for("a tool call waits for you (until 2026-09-24T22:00:00Z):")
        screen.wait_for("http_fetch x\\u{1b}[2J")
        screen.wait_for("allow it? [y/n]")
        for no_answer in ("maybe\r", "\r", "yn\r"):
            screen.type(no_answer)
            screen.wait_for("type yes or no")
            screen.wait_for("allow it? [y/n]")
        screen.type(f"{key}\r")
        screen.wait_for(said)
        screen.wait_for("✓ http_fetch: a page")
        screen.wait_for("! the session is now private · untrusted (it was private)")
        screen.wait_for("an answer\r\nof two lines")
        screen.wait_for("private · untrusted")
        screen.wait_for("10 tokens in · 3 tokens out")
        screen.type("\x04")
        assert screen.ended() == 0
    assert asking.answers == [broker.ApprovalAnswer(approval=APPROVAL, allow=allow, by="chat")]
    assert fakes.one(loop.Chat) == loop.Chat(session=None, text="héllo $HOME")
    history = home / "state" / "bxctl" / "history"
    assert "+héllo $HOME" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600


def test_what_was_typed_before_the_question_is_no_answer_to_it(fakes: Fakes, home: Path) -> None:
    asking = Asking(fakes, holds=True)
    with fakes.serving(), terminal.running("chat", "hello", environ=_environ(home)) as screen:
        screen.wait_for("▸ http_fetch")
        screen.type("y\r")
        asking.holds = False
        screen.wait_for("allow it? [y/n]")
        screen.type("no\r")
        screen.wait_for("denied")
        assert screen.ended() == 0
    assert [answer.allow for answer in asking.answers] == [False]


def test_an_answer_waits_for_a_brokerd_that_is_away(fakes: Fakes, home: Path) -> None:
    asking = Asking(fakes, away=1)
    with fakes.serving(), terminal.running("chat", "hello", environ=_environ(home)) as screen:
        screen.wait_for("allow it? [y/n]")
        screen.type("yes\r")
        screen.wait_for("an answer\r\nof two lines")
        assert screen.ended() == 0
    assert [answer.allow for answer in asking.answers] == [True]


def test_a_question_that_is_decided_elsewhere_goes_away(fakes: Fakes, home: Path) -> None:
    asking = Asking(fakes, elsewhere=True)
    with fakes.serving(), terminal.running("chat", "hello", environ=_environ(home)) as screen:
        screen.wait_for("allow it? [y/n]")
        screen.wait_for("decided elsewhere")
        screen.wait_for("✓ http_fetch: a page")
        screen.wait_for("an answer\r\nof two lines")
        assert screen.ended() == 0
    assert asking.answers == []


def test_interrupt_stops_the_turn_and_the_conversation_goes_on(fakes: Fakes, home: Path) -> None:
    stops: list[loop.ChatStop] = []

    async def turn(request: loop.Chat, connection: Connection) -> loop.ChatFailed:
        opened: tuple[Any, ...] = (OPENED, loop.ChatDelta(text="a long story"))
        for event in opened:
            await connection.send(event)
        with anyio.fail_after(20):
            while not stops:  # noqa: ASYNC110  (the other side is a thread)
                await anyio.sleep(0.01)
        return FAILED

    async def stop(request: loop.ChatStop, connection: Connection) -> wire.Ok:
        stops.append(request)
        return wire.Ok()

    fakes.answer(ROW, loop.Chat, turn).answer(ROW, loop.ChatStop, stop)
    with fakes.serving(), terminal.running("chat", environ=_environ(home)) as screen:
        screen.wait_for("a new session begins")
        screen.type("\x03")
        screen.wait_for("^D leaves\r\n")
        screen.type("tell me\r")
        screen.wait_for("a long story")
        screen.type("\x03")
        screen.wait_for("stopping …")
        screen.wait_for("the model cannot be reached")
        screen.wait_for("›")
        screen.type("/quit\r")
        assert screen.ended() == 0
    assert stops == [loop.ChatStop(session=SESSION)]


def test_a_session_that_goes_on_begins_with_its_last_lines(fakes: Fakes, home: Path) -> None:
    records: list[dict[str, Any]] = [{"kind": "user", "text": f"number {n}", "author": None} for n in range(20)]
    records.append({"kind": "assistant", "content": "the last\x1b[2J word", "tool_calls": []})
    fakes.answer(ROW, loop.SessionLog, loop.SessionLogReply(records=records, next=None)).answer(
        ROW, loop.Chat, [OPENED, DONE]
    )
    with fakes.serving(), terminal.running("chat", "--session", SESSION, environ=_environ(home)) as screen:
        screen.wait_for("…\r\nyou: number 13")
        screen.wait_for("box: the last\\u{1b}[2J word")
        screen.wait_for(f"{SESSION} goes on")
        screen.type("/new\r")
        screen.wait_for("a new session begins with your next words")
        screen.type("hello\r")
        screen.wait_for("an answer")
        screen.type("/session\r")
        screen.wait_for(f"session {SESSION}\r\n")
        screen.type("/help\r")
        screen.wait_for("/memory    the last edits of memory")
        screen.type("/nothing\r")
        screen.wait_for("there is no /nothing; /help lists what there is")
        screen.wait_for("›")
        screen.type("\x04")
        assert screen.ended() == 0
    assert fakes.one(loop.Chat).session is None


@pytest.mark.parametrize("columns", [100, 60])
def test_a_table_fits_the_terminal_and_shows_ids_whole(fakes: Fakes, home: Path, columns: int) -> None:
    summary = loop.SessionSummary(
        session=SESSION,
        began="",
        updated="2026-09-24T21:02:03Z",
        records=2,
        first="word " * 40,
        state="open",
        class_=DataClass.SECRET,
        untrusted=True,
    )
    fakes.answer(ROW, loop.Sessions, loop.SessionsReply(sessions=[summary], total=1))
    with fakes.serving(), terminal.running("sessions", environ=_environ(home), columns=columns) as screen:
        assert screen.ended() == 0
    assert SESSION in screen.printed
    assert "secret · untrusted" in screen.printed
    assert screen.printed.count("word") == 41
    if columns == 100:
        assert all(len(line) <= columns for line in screen.printed.split("\r\n"))
    else:
        assert screen.printed.startswith(
            f"{SESSION}\r\n  last spoke: 2026-09-24 21:02\r\n  label: secret · untrusted\r\n"
        )


_LOG = """\
id               time                  session                      action       file                by
2026-09-24-0007  2026-09-24T21:02:03Z  chat-20260924-210203-0a1b2c  add          user.md → notes.md  agent
2026-09-24-0008  2026-09-24T21:03:03Z  -                            edit         memory.md           owner

left out of the memory block:
memory.md, entry 12: an invisible or direction-changing character (rule 2): crew of the launch
"""


def test_the_log_of_memory_on_a_narrow_terminal_is_folded_between_its_columns(fakes: Fakes, home: Path) -> None:
    fakes.answer("owner-memory", memory.MemoryAdmin, memory.MemoryAdminReply(text=_LOG))
    with fakes.serving():
        with terminal.running("memory", "log", environ=_environ(home), columns=60) as screen:
            assert screen.ended() == 0
            assert screen.printed.splitlines() == [
                "2026-09-24-0007",
                "  time: 2026-09-24T21:02:03Z",
                "  session: chat-20260924-210203-0a1b2c",
                "  action: add",
                "  file: user.md → notes.md",
                "  by: agent",
                "2026-09-24-0008",
                "  time: 2026-09-24T21:03:03Z",
                "  action: edit",
                "  file: memory.md",
                "  by: owner",
                "",
                "left out of the memory block:",
                "memory.md, entry 12: an invisible or direction-changing",
                "  character (rule 2): crew of the launch",
            ]
        with terminal.running("memory", "log", environ=_environ(home), columns=120) as screen:
            assert screen.ended() == 0
            assert screen.printed.splitlines() == _LOG.splitlines()
