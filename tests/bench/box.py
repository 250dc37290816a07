"""What a whole box costs: the block, the first token through loopd and egressd, the idle memory of each daemon."""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from proto.messages import loop, memory
from tests.e2e.box import DAEMONS, Box, running
from tests.hostile.frames import rss_kib

_ROUNDS: Final = 5
_TURNS: Final = 20
_SCRIPT: Final = [{"text": "Thursday it is."}] * (2 * _ROUNDS * _TURNS + 100)
_BODY: Final = json.dumps(
    {"model": "scripted-1", "stream": True, "messages": [{"role": "user", "content": "When is the launch?"}]}
).encode()


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _first_token_direct_ms(model: Path) -> float:
    """The time from a new connection to the model's first event."""
    started = time.perf_counter()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(model))
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: m\r\nContent-Length: {len(_BODY)}\r\n\r\n".encode()
        client.sendall(head + _BODY)
        received = b""
        while b"data: " not in received:
            received += client.recv(65536)
        return (time.perf_counter() - started) * 1e3


def _first_token_box_ms(box: Box, session: str | None) -> tuple[float, str]:
    """The time from saying something to the first words of the answer, and the session."""
    started = time.perf_counter()
    first: float | None = None
    name = ""
    for event in box.chat_events("When is the launch?", session):
        if isinstance(event, loop.ChatOpened):
            name = event.session
        if isinstance(event, loop.ChatDelta) and first is None:
            first = (time.perf_counter() - started) * 1e3
    if first is None:
        raise AssertionError(box.log("loopd"))
    return first, name


def _rounds(box: Box, model: Path) -> list[str]:
    direct, through, fresh = [], [], []
    for _ in range(_ROUNDS):
        direct.append(_median([_first_token_direct_ms(model) for _ in range(_TURNS)]))
        new_ms, session = _first_token_box_ms(box, None)
        fresh.append(new_ms)
        through.append(_median([_first_token_box_ms(box, session)[0] for _ in range(_TURNS)]))
    block = []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        for _ in range(_TURNS):
            box.ask("loop-memory", memory.MemoryBlock(), memory.MemoryBlockReply)
        block.append((time.perf_counter() - started) / _TURNS * 1e3)
    return [
        (
            f"first token     {_median(through):8.1f} ms   model asked directly {_median(direct):6.1f} ms   "
            f"a new session's first {_median(fresh):6.1f} ms"
        ),
        f"memory block    {_median(block):8.1f} ms",
    ]


def measure(home: Path) -> list[str]:
    """The lines of the report, from a box with a scripted model."""
    model = home / "model.sock"
    script = home / "script.json"
    script.write_text(json.dumps(_SCRIPT))
    fake = subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.model", "--socket", str(model), "--script", str(script)]
    )
    try:
        while not model.exists():
            time.sleep(0.02)
        with running(home, model=f"unix:{model}") as box:
            time.sleep(2)
            idle = "   ".join(f"{daemon} {rss_kib(box.pid(daemon)) / 1024:.0f} MiB" for daemon in DAEMONS)
            return [*_rounds(box, model), f"idle memory     {idle}"]
    finally:
        fake.terminate()
        fake.wait()
