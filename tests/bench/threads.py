"""Mattermost threads: from a post to the first sign and the first words, fifty at once, memory, and a thousand breaks.

The real daemons and a fake server. The model is scripted; it is asked directly too, so that what the box adds is seen.
"""

import http.client
import json
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from proto.role.loop import Loop
from tests.e2e.box import Box, in_threads
from tests.fakes.mattermost import FakeMattermost
from tests.fakes.model import FakeModel
from tests.loopd.channels.breaking import soak

Map = dict[str, Any]
ROUNDS, AT_ONCE, THREADS = 30, 50, 1_000
BREAKS, POSTS = 1_000, 5_000


@contextmanager
def _box(home: Path) -> Iterator[tuple[Box, FakeMattermost, FakeModel]]:
    with (
        FakeMattermost() as server,
        FakeModel(otherwise={"text": "Here is the answer.", "chunk": 4}) as model,
        in_threads(home, server, model.url, "turns_at_once = 64\n") as box,
    ):
        yield box, server, model


def measure(home: Path) -> Iterator[str]:
    """The lines of the report."""
    with _box(home) as (box, server, model):
        signs, words = zip(*(_one(server) for _ in range(ROUNDS)), strict=True)
        direct = statistics.median(_direct(model) for _ in range(ROUNDS))
        yield f"post to typing        {_ms(signs)} (median of {ROUNDS})"
        yield f"post to first words   {_ms(words)}; the model asked directly {direct * 1000:.1f} ms"
        yield f"{AT_ONCE} threads at once    {_at_once(server, AT_ONCE):.2f} s until each has its answer"
        before = _rss_mib(box)
        for _ in range(THREADS // AT_ONCE):
            _at_once(server, AT_ONCE)
        yield f"memory of loopd       {before:.0f} MiB, after {THREADS:,} more threads {_rss_mib(box):.0f} MiB"


def breaks(home: Path) -> str:
    """A thousand breaks in five thousand posts.

    Raises:
        AssertionError: a post was lost, handled twice, or out of order.

    """
    seed = int(time.time())
    began = time.monotonic()
    soaked = anyio.run(soak, home, POSTS, BREAKS, 50, seed, backend_options={"loop_factory": Loop})
    assert soaked.heard == soaked.said, f"seed {seed}"
    assert sum(map(len, soaked.answered.values())) == POSTS, f"seed {seed}"
    took_s = time.monotonic() - began
    return f"{soaked.breaks:,} breaks, {POSTS:,} posts: each handled once, in order ({took_s:.0f} s, seed {seed})"


def _one(server: FakeMattermost) -> tuple[float, float]:
    """Seconds from a post to the first typing and to the first words in its thread."""
    typed = server.typed
    began = time.perf_counter()
    root = server.say(server.owner, server.dm, "How are you?")
    sign = words = 0.0
    while not words:
        now = time.perf_counter() - began
        if not sign and server.typed > typed:
            sign = now
        if any(post["user_id"] == server.bot["id"] for post in server.posts(server.dm, root)):
            words = now
        assert now < 30, "no answer"
        time.sleep(0.0005)
    return sign or words, words


def _at_once(server: FakeMattermost, count: int) -> float:
    began = time.perf_counter()
    roots = [server.say(server.owner, server.dm, f"thread {number}") for number in range(count)]
    for root in roots:
        server.wait(lambda root=root: _is_answered(server, root), 60)  # type: ignore[misc]
    return time.perf_counter() - began


def _is_answered(server: FakeMattermost, root: Map) -> bool:
    return any(post["message"] == "Here is the answer." for post in server.posts(server.dm, root))


def _direct(model: FakeModel) -> float:
    """Seconds until the model's first words, asked as loopd asks it."""
    connection = http.client.HTTPConnection(model.url.removeprefix("http://"), timeout=10)
    body = json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": "How are you?"}]})
    began = time.perf_counter()
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    while b"content" not in answer.readline():
        pass
    took = time.perf_counter() - began
    connection.close()
    return took


def _rss_mib(box: Box) -> float:
    pages = int(Path(f"/proc/{box.pid('loopd')}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _ms(values: tuple[float, ...]) -> str:
    return f"{statistics.median(values) * 1000:.1f} ms"
