"""The scripted model run by itself, as the tests of the whole box run it."""

import json
import subprocess
import sys
import time
from pathlib import Path

import anyio.to_thread
import pytest

from loopd.ports.completion import Completion
from loopd.ports.model import ModelPort, Request
from loopd.turn.steps import Answered
from tests.shape import tree

pytestmark = pytest.mark.anyio


async def test_a_script_from_a_file(home: Path) -> None:
    (home / "script.json").write_text(json.dumps([{"text": "one"}, {"when": "kettle", "text": "tea"}]))
    command = [sys.executable, "-m", "tests.fakes.model", "--socket", str(home / "m.sock")]
    command += ["--script", str(home / "script.json"), "--record", str(home / "record.jsonl")]
    process = await anyio.to_thread.run_sync(lambda: subprocess.Popen(command, cwd=tree.ROOT))
    port = ModelPort(home / "m.sock", 10.0, connect_within_s=20.0)
    try:
        said: list[str] = []
        for text in ("hi", "the kettle", "the kettle", "bye"):
            body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
            answer = await port.complete(Request("local", "chat-a", body), Completion(), said.append)
            assert isinstance(answer, Answered)
        assert "".join(said) == "oneteateaThe script is at its end."
        deadline = time.monotonic() + 10
        (home / "record.jsonl").touch()
        while (home / "record.jsonl").read_bytes().count(b"\n") < 4:
            assert time.monotonic() < deadline
        assert json.loads((home / "record.jsonl").read_text().splitlines()[1])["messages"][0]["content"] == "the kettle"
    finally:
        process.kill()
        process.wait()
