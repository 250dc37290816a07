"""A worker ends by itself, and well, when its daemon has no more to ask: each one that there is."""

import json
import os
import socket
import subprocess
import sys

import pytest

from brokerd.policy import modules
from egressd import reader
from proto.role.confined import LENGTH, receive

pytestmark = pytest.mark.measured

LOADS = json.dumps({"modules": modules.in_force(modules.compose(()))}).encode()
ASKS = json.dumps({"ask": 7, "entrypoint": "boxmaker/tool/decision", "term": "{}"}).encode()
ANSWER = '{"expressions":[{"allow":false, "ask":true, "reasons":["grants-invalid","session-not-open","tool-unknown"]}]}'


def _worker(module: str, *requests: bytes) -> tuple[list[bytes | None], int]:
    """The answers of a worker that is started as a daemon would, and its exit code once nobody asks any more."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = (sys.executable, "-I", "-m", module, str(theirs.fileno()), str(os.getpid()))
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    with process, ours:
        answers = []
        for request in requests:
            ours.sendall(LENGTH.pack(len(request)) + request)
            answers.append(receive(ours))
        ours.close()
        return answers, process.wait(20)


def test_the_reader_of_pages() -> None:
    request = reader.question(b"<p>one<p>two", None, "https://a.example/", 1_000)
    assert _worker("egressd.reader", request, request) == ([b"=one\n\ntwo"] * 2, 0)


def test_the_policys() -> None:
    (loaded, answered), code = _worker("brokerd.policy.worker", LOADS, ASKS)
    assert (json.loads(loaded or b""), code) == ({"problem": None}, 0)
    assert json.loads(answered or b"") == {"ask": 7, "answer": ANSWER}


def test_the_policys_with_modules_that_do_not_load() -> None:
    request = json.dumps({"modules": [["mine.rego", "package x\n\nimport rego.v1\n\ndeny contains if {\n"]]}).encode()
    (answered,), code = _worker("brokerd.policy.worker", request)
    assert json.loads(answered or b"")["problem"].startswith("mine.rego, line 5: ")
    assert code == 0


def test_the_policys_that_is_asked_of_what_is_no_input() -> None:
    broken = json.dumps({"ask": 8, "entrypoint": "boxmaker/tool/decision", "term": '{"a'}).encode()
    (loaded, answered), code = _worker("brokerd.policy.worker", LOADS, broken)
    assert (json.loads(loaded or b""), answered, code) == ({"problem": None}, None, 1)
