"""Decision contexts: what a call left behind reaches memoryd byte for byte, whatever becomes of memoryd meanwhile."""

import io
import tempfile
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from egressd import contexts as module
from egressd import outbox
from egressd.config import Contexts as Limits
from egressd.contexts import Contexts
from egressd.ports import Left
from egressd.recording import _masked
from egressd.wire.redact import Redactor
from proto.labels import DataClass
from proto.messages.broker import EgressDecision
from proto.messages.memory import ContextAbout
from proto.sockets import socket
from tests.fakes.kept import FakeKeeper

pytestmark = pytest.mark.anyio

KEY = b"sk-secret-0123456789"
REQUEST = b'{"model":"scripted-1","messages":[]}'
ANSWER = [b"data: {}\n\n", b"", b"data: [DO", b"NE]\n\n"]
HEAD = [(b"Content-Type", b"text/event-stream"), (b"Set-Cookie", b"a=b"), (b"X-Request-Id", b"r1")]


def _decision(domain: str | None = "dom-me") -> EgressDecision:
    return EgressDecision(allow=True, reasons=[], message="", class_=DataClass.SECRET, untrusted=True, domain=domain)


def _left(call: str = "model-1", body: IO[bytes] | None = None, **fields: Any) -> Left:
    made = Left(
        call=call, session="chat-a", destination="up", auth="key", route="openai-chat", method="POST",
        path="/v1/chat/completions?key=sk-secret-0123456789", model="scripted-1", decision=_decision(),
        headers=[(b"Content-Type", b"application/json"), (b"Authorization", b"Bearer " + KEY), (b"User-Agent", b"a " + KEY)],
        body=body or io.BytesIO(REQUEST), redactor=Redactor(KEY),
    )  # fmt: skip
    return made._replace(**fields)


def _made(home: Path, limits: Limits | None = None, made: Callable[[str], int] = lambda _: 7) -> Contexts:
    return Contexts(
        folder=home / "outbox",
        socket=socket("egress-memory").at(home),
        limits=limits or Limits(),
        retention_days=lambda domain: 0 if domain == "dom-none" else 12,
        turns=made,
        clock=lambda: datetime(2026, 9, 24, 21, 2, 3, tzinfo=UTC),
    )


def _relayed(contexts: Contexts, left: Left, answer: list[bytes] = ANSWER, *, whole: bool = True) -> None:
    """A call from its leaving to its end."""
    recorder = contexts.leaves(left)
    assert recorder is not None
    recorder.head(200, HEAD)
    for piece in answer:
        recorder.data(piece)
    recorder.end(whole, "scripted-1-20260901")
    left.body.close()


def _running(contexts: Contexts) -> AbstractAsyncContextManager[Contexts]:
    @asynccontextmanager
    async def run() -> Any:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(contexts.run)
            yield contexts
            tasks.cancel_scope.cancel()
        contexts.close()

    return run()


async def _until(comes_true: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not comes_true():  # noqa: ASYNC110  (what is waited for is files)
            await anyio.sleep(0.002)


def _files(home: Path) -> int:
    return len(list((home / "outbox").glob("*.item")))


async def test_a_call_reaches_memoryd_with_all_that_is_said_of_it(home: Path) -> None:
    async with FakeKeeper(home).running() as keeper, _running(_made(home)) as contexts:
        _relayed(contexts, _left())
        (kept,) = await keeper.wait_for(1)
        await _until(lambda: _files(home) == 0)
    assert kept.bodies == {"request": REQUEST, "response": b"".join(ANSWER)}
    assert [(part.name, part.whole) for part in kept.parts] == [("request", True), ("response", True)]
    assert kept.parts[0].headers == [("content-type", "application/json"), ("user-agent", "a " + "*" * len(KEY))]
    assert kept.parts[1].headers == [("content-type", "text/event-stream"), ("x-request-id", "r1")]
    begun = kept.begun
    assert (begun.kept, begun.session, begun.call, begun.domain) == ("contexts", "chat-a", "model-1", "dom-me")
    assert (begun.class_, begun.untrusted, begun.observed_by) == (DataClass.SECRET, True, "egress")
    assert (begun.time, begun.retention_days) == ("2026-09-24T21:02:03Z", 12)
    assert begun.context == ContextAbout(
        turn=7, destination="up", auth="key", route="openai-chat", method="POST",
        path="/v1/chat/completions?key=" + "*" * len(KEY), status=200, model="scripted-1-20260901",
    )  # fmt: skip


@pytest.mark.parametrize("made", [io.BytesIO, tempfile.TemporaryFile])
async def test_no_secret_is_in_it_also_where_pieces_divide_it(home: Path, made: Callable[[], IO[bytes]]) -> None:
    # A short body that the destination wants longer stays in memory, however long it becomes.
    body = made()
    body.write(b"x" * (3 << 19) + KEY + b"y" * (1 << 19) + KEY[:7])
    async with FakeKeeper(home).running() as keeper, _running(_made(home)) as contexts:
        _relayed(contexts, _left(body=body))
        (kept,) = await keeper.wait_for(1)
    assert kept.bodies["request"] == b"x" * (3 << 19) + b"*" * len(KEY) + b"y" * (1 << 19) + KEY[:7]


@given(st.lists(st.sampled_from([KEY, KEY[:5], KEY[5:], b"x", b""]), max_size=12))
async def test_masking_depends_on_no_cut(pieces: list[bytes]) -> None:
    whole = Redactor(KEY).whole(b"".join(pieces))
    assert b"".join(_masked(iter(pieces), Redactor(KEY))) == whole


async def test_nothing_is_kept_without_a_domain_or_a_day(home: Path) -> None:
    contexts = _made(home)
    assert contexts.leaves(_left(decision=_decision(None))) is None
    assert contexts.leaves(_left(decision=_decision("dom-none"))) is None


async def test_turns_go_on_from_what_the_session_has_made(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_SESSIONS", 2)
    asked: list[str] = []

    def made(session: str) -> int:
        asked.append(session)
        return len(asked) * 10

    contexts = _made(home, made=made)
    turns = [contexts._turn(session) for session in ("chat-a", "chat-a", "chat-b", "chat-a", "chat-c", "chat-b")]
    assert turns == [10, 11, 20, 12, 30, 40]
    assert asked == ["chat-a", "chat-b", "chat-c", "chat-b"]


@pytest.mark.parametrize(("answer", "bound", "expected"), [([b"12345"], 5, True), ([b"123", b"456", b"7"], 5, False)])
async def test_a_long_answer_is_cut_and_says_so(home: Path, answer: list[bytes], bound: int, expected: bool) -> None:
    async with FakeKeeper(home).running() as keeper, _running(_made(home, Limits(response_bytes=bound))) as contexts:
        _relayed(contexts, _left(), answer)
        (kept,) = await keeper.wait_for(1)
    assert (kept.bodies["response"], kept.parts[1].whole) == (b"12345", expected)


async def test_a_call_without_an_answer(home: Path) -> None:
    async with FakeKeeper(home).running() as keeper, _running(_made(home)) as contexts:
        recorder = contexts.leaves(_left())
        assert recorder is not None
        recorder.end(False, None)
        (kept,) = await keeper.wait_for(1)
    assert kept.bodies["response"] == b"" and not kept.parts[1].whole
    assert kept.begun.context is not None
    assert (kept.begun.context.status, kept.begun.context.model) == (0, "scripted-1")


async def test_memoryd_may_be_away_and_egressd_killed_meanwhile(home: Path) -> None:
    with capture_logs() as logs:
        async with _running(_made(home)) as contexts:
            for number in range(3):
                _relayed(contexts, _left(f"model-{number}"))
            await _until(lambda: _files(home) == 3 and bool(logs))
    async with FakeKeeper(home).running() as keeper, _running(_made(home)):
        kept = await keeper.wait_for(3)
    assert [one.begun.call for one in kept] == ["model-0", "model-1", "model-2"]
    assert {one.bodies["request"] for one in kept} == {REQUEST}
    assert [line["event"] for line in logs] == ["contexts-not-taken"]


async def test_what_piles_up_is_handed_over_though_calls_leave_and_a_little_waits_for_a_lull(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("_LULL_S", 60), ("_LONGEST_TO_WRITE_S", 0.01), ("_LONGEST_TO_SEND_S", 60), ("_MANY", 3)):
        monkeypatch.setattr(module, name, value)
    async with FakeKeeper(home).running() as keeper, _running(_made(home)) as contexts:
        for number in range(3):
            _relayed(contexts, _left(f"model-{number}"))
        await keeper.wait_for(3)
        await _until(lambda: _files(home) == 0)
        asked = keeper.asked
        _relayed(contexts, _left("model-3"))
        await _until(lambda: _files(home) == 1)
        await anyio.sleep(0.1)
        assert keeper.asked == asked


async def test_what_was_queued_when_egressd_ends_is_written(home: Path) -> None:
    contexts = _made(home)
    _relayed(contexts, _left())
    contexts.close()
    async with FakeKeeper(home).running() as keeper, _running(_made(home)):
        await keeper.wait_for(1)


async def test_a_memoryd_that_starts_again_in_the_middle_gets_it_whole(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "PIECE_BYTES", 5)
    keeper = FakeKeeper(home)
    async with _running(_made(home)) as contexts:
        async with keeper.running():
            _relayed(contexts, _left())
            await _until(lambda: keeper.asked >= 3)
        async with keeper.running():
            (kept,) = await keeper.wait_for(1)
    assert kept.bodies == {"request": REQUEST, "response": b"".join(ANSWER)}


async def test_what_memoryd_refuses_is_dropped_and_told_and_the_next_goes_on(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.001)
    keeper = FakeKeeper(home)
    keeper.faults = ["busy", "memory-unavailable", "kept-refused", "busy", "kept-refused", "frame-undecodable", "busy"]
    with capture_logs() as logs:
        async with keeper.running(), _running(_made(home)) as contexts:
            _relayed(contexts, _left("model-1"))
            _relayed(contexts, _left("model-2"))
            (kept,) = await keeper.wait_for(1)
            await _until(lambda: _files(home) == 0)
    assert kept.begun.call == "model-2"
    assert contexts.dropped == 1
    (dropped,) = [line for line in logs if line["event"] == "context-dropped"]
    assert dropped["file"].endswith("model-1.item") and dropped["dropped_since_start"] == 1


async def test_what_finds_no_room_is_dropped_and_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contexts = _made(home, Limits(outbox_bytes=1_500))
    with capture_logs() as logs:
        for number in range(2):
            _relayed(contexts, _left(f"model-{number}", io.BytesIO(b"x" * 1_000)))
        contexts.close()
        monkeypatch.setattr(module, "MOST_WAITING_BYTES", 10)
        _relayed(contexts, _left("model-2"))
        monkeypatch.setattr(module, "MOST_WAITING", 0)
        _relayed(contexts, _left("model-3", io.BytesIO()))
    assert [line["why"] for line in logs] == [
        "no room in the outbox: memoryd does not take what waits, or the disk is nearly full",
        "too many wait to be written",
        "too many wait to be written",
    ]
    assert (contexts.dropped, _files(home)) == (3, 1)


async def test_a_damaged_file_is_dropped(home: Path) -> None:
    (home / "outbox").mkdir()
    (home / "outbox" / f"{1:020}-model-0.item").write_bytes(b"nothing")
    async with FakeKeeper(home).running() as keeper, _running(_made(home)) as contexts:
        _relayed(contexts, _left())
        await keeper.wait_for(1)
        await _until(lambda: _files(home) == 0)
    assert contexts.dropped == 1


async def test_a_body_that_cannot_be_read_is_dropped_and_never_raises(home: Path) -> None:
    contexts = _made(home)
    recorder = contexts.leaves(left := _left())
    assert recorder is not None
    recorder.data(b"x")
    left.body.close()
    recorder.end(True, None)
    assert contexts.dropped == 1
