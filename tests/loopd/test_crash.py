"""Kill points: the real process ended by SIGKILL between records, and what its next start makes of it."""

import json
import random
import time
from contextlib import closing
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from loopd.session.records import Assistant, from_line, position
from loopd.turn.opening import INTERRUPTED
from proto.canon import compact
from proto.labels import DataClass, Label
from proto.messages.broker import ToolRequest
from proto.messages.loop import ChatDone, ChatOpened
from tests.e2e.box import Box
from tests.fakes.brokerd import Says
from tests.fakes.model import Reply
from tests.loopd.rig import World, world

pytestmark = pytest.mark.kill
UNTRUSTED = Label(DataClass.PRIVATE, untrusted=True)
ASKS: Reply = {"calls": [{"name": "recall", "arguments": {"query": "x"}, "id": "c"}]}


def wait(outside: World, session: str, kinds: list[str]) -> list[dict[str, Any]]:
    deadline = time.monotonic() + 10
    while [line["kind"] for line in outside.log(session)] != kinds:
        assert time.monotonic() < deadline, outside.log(session)
        time.sleep(0.02)
    return outside.log(session)


def begin(box: Box, text: str) -> str:
    """Begin a turn and go away."""
    with closing(box.chat_events(text)) as events:  # type: ignore[type-var]
        opened = next(events)
    assert isinstance(opened, ChatOpened)
    return str(opened.session)


def test_killed_while_the_model_speaks_the_turn_is_asked_again(home: Path) -> None:
    with world(home, [{"text": "never kept", "hold": True}, {"text": "hello"}]) as outside:
        box = Box(home).start("loopd")
        session = begin(box, "hi")
        outside.model.wait_for(1)
        box.kill("loopd")
        box.start("loopd")
        assert wait(outside, session, ["user", "assistant"])[1]["content"] == "hello"
        # The same question, to the byte: the baseline and the log were replayed.
        assert outside.model.requests[0].body == outside.model.requests[1].body
        assert box.stop("loopd") == {"loopd": 0}


def test_killed_while_a_call_runs_it_is_interrupted_and_the_turn_goes_on(home: Path) -> None:
    with world(home, [ASKS, {"text": "hello"}]) as outside:
        outside.broker.tools["recall"] = Says("kept by nobody", label=UNTRUSTED, holds=True)
        box = Box(home).start("loopd")
        session = begin(box, "hi")
        outside.broker.wait_for(ToolRequest)
        box.kill("loopd")
        # The result had raised the label before loopd could have had it.
        outside.broker.release()
        outside.broker.labels[session] = UNTRUSTED
        box.start("loopd")
        log = wait(outside, session, ["user", "assistant", "tool_result", "assistant"])
        assert (log[2]["content"], log[2]["class"], log[2]["untrusted"]) == (INTERRUPTED, "private", True)
        assert len(outside.broker.of(ToolRequest)) == 1
        assert outside.model.requests[1].body.startswith(outside.model.requests[0].body.removesuffix(b"]}"))
        box.stop("loopd")


def test_killed_at_random_every_log_is_whole_and_every_prompt_extends_the_one_before(home: Path) -> None:
    chosen = random.Random(11)
    script = [reply for number in range(60) for reply in (dict(ASKS), {"text": f"answer {number}", "gap_s": 0.002})]
    with world(home, script) as outside:
        outside.broker.tools["recall"] = Says("found")
        box = Box(home).start("loopd")
        session = box.chat("hi").session
        acknowledged = ["answer 0"]
        for number in range(6):
            with closing(box.chat_events(f"text {number}", session)) as events:  # type: ignore[type-var]
                for event in islice(events, chosen.randrange(1, 9)):
                    acknowledged += [event.text] if isinstance(event, ChatDone) else []
                box.kill("loopd")
            box.start("loopd")
            deadline = time.monotonic() + 10
            while not position([from_line(line) for line in _lines(home, session)]).answered:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        box.stop("loopd")
        records = [from_line(line) for line in _lines(home, session)]
        assert position(records).open_calls == ()
        assert set(acknowledged) <= {record.content for record in records if isinstance(record, Assistant)}
        bodies = [request.body.removesuffix(b"]}") for request in outside.model.requests]
        for earlier, later in pairwise(bodies):
            assert later.startswith(earlier)


def _lines(home: Path, session: str) -> list[dict[str, Any]]:
    text = (home / "sessions" / session / "0.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert text == "".join(compact(line) + "\n" for line in lines)
    return lines
