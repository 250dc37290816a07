"""What the egress adds to a model's stream, beside the same upstream asked directly and, if it is here, LiteLLM's proxy.

Every call through egressd is decided by brokerd's policy, metered and booked. All of it in one run: one stream at a
time, fifty at once, then ten thousand calls for the memory. Rounds go in turns, since a machine is now quick and now
slow. LiteLLM's proxy runs in the environment that `tests/peers/environment.sh` makes; where there is none, its lines
are left out.
"""

import asyncio
import contextlib
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from proto import sockets
from proto.messages import egress
from proto.role.ask import ask
from tests.bench.streams import Target, Timed, stream
from tests.e2e.box import Box, running
from tests.hostile.frames import rss_kib
from tests.peers import litellm
from tests.peers.server import free_port, serving

_SESSION: Final = "run-bench"
_ALONE: Final = 60
_AT_ONCE: Final = 50
_ROUNDS: Final = 15
_EVENTS: Final = 40
_GAP_MS: Final = 25.0
_CALLS: Final = 10_000
_CALLS_AT_ONCE: Final = 20


class _Found(NamedTuple):
    """Medians in milliseconds: to the first token alone, and with many at once; of a token's way there."""

    alone_ms: float
    first_ms: float
    way_ms: float


@contextlib.contextmanager
def _litellm(folder: Path, upstream: int) -> Iterator[tuple[Target, int] | None]:
    """LiteLLM's proxy in front of the upstream, if its environment is here."""
    if not litellm.PROGRAM.exists():
        yield None
        return
    with litellm.running(folder, f"http://127.0.0.1:{upstream}/v1", ["fast-1"]) as proxy:
        yield Target(None, proxy.port, "/v1/chat/completions", (f"Authorization: Bearer {proxy.key}",)), proxy.pid


@contextlib.contextmanager
def _box(home: Path, upstream: int) -> Iterator[Box]:
    """A box with one session whose destination is the upstream."""
    (home / "grants.toml").write_text(
        f'[destinations.fast]\nbase_url = "http://127.0.0.1:{upstream}"\nceiling = "private"\n'
        "[spend.fast]\nday_tokens = 1000000000000\n"
    )
    with running(home, "memoryd", "brokerd", "egressd") as box:
        box.open_session(_SESSION, "fast")
        yield box


def _session(box: Box) -> Target:
    opened: egress.EgressOpened = ask(
        sockets.socket("launcher-egress").at(box.home),
        egress.EgressOpen(session=_SESSION, destination="fast", auth="none", harness=None),
        egress.EgressOpened,
    )
    return Target(opened.path, 0, "/v1/chat/completions")


def _alone(target: Target) -> float:
    """The median time to the first token, one stream after another, in milliseconds."""

    async def run() -> float:
        return statistics.median([(await stream(target, 1, 0)).first_ms for _ in range(_ALONE)])

    return asyncio.run(run())


def _together(target: Target) -> tuple[float, float]:
    """Of fifty paced streams begun at once: the median time to the first token, and that of a token's way."""

    async def run() -> list[Timed]:
        return await asyncio.gather(*(stream(target, _EVENTS, _GAP_MS) for _ in range(_AT_ONCE)))

    all_of_them = asyncio.run(run())
    first = statistics.median([one.first_ms for one in all_of_them])
    return first, statistics.median([way for one in all_of_them for way in one.way_ms[1:]])


def _memory(box: Box, target: Target) -> str:
    """How egressd's memory grows over ten thousand calls."""

    async def run(calls: int) -> None:
        for _ in range(0, calls, _CALLS_AT_ONCE):
            await asyncio.gather(*(stream(target, 1, 0) for _ in range(_CALLS_AT_ONCE)))

    asyncio.run(run(1_000))
    before = rss_kib(box.pid("egressd")) / 1024
    asyncio.run(run(_CALLS))
    after = rss_kib(box.pid("egressd")) / 1024
    return f"egressd's memory {before:5.0f} MiB after 1,000 calls, {after:5.0f} MiB after {_CALLS + 1_000:,}"


def measure(home: Path) -> Iterator[str]:
    """The lines of the report."""
    upstream = free_port()
    with (
        tempfile.TemporaryDirectory(prefix="bx") as folder,
        serving(sys.executable, "-m", "tests.bench.streams", "--port", str(upstream), port=upstream),
        _litellm(Path(folder), upstream) as lite,
        _box(home, upstream) as box,
    ):
        targets = {"direct": Target(None, upstream, "/v1/chat/completions"), "egressd": _session(box)}
        if lite is not None:
            targets["LiteLLM"] = lite[0]
        for target in targets.values():
            _alone(target)
        alone = [{name: _alone(target) for name, target in targets.items()} for _ in range(_ROUNDS)]
        together = [{name: _together(target) for name, target in targets.items()} for _ in range(_ROUNDS)]
        found = {
            name: _Found(
                statistics.median(one[name] for one in alone),
                statistics.median(one[name][0] for one in together),
                statistics.median(one[name][1] for one in together),
            )
            for name in targets
        }
        direct = found["direct"]
        for name, one in found.items():
            yield (
                f"{name:8} first token {one.alone_ms:7.1f} ms ({one.alone_ms - direct.alone_ms:+7.1f})   "
                f"{_AT_ONCE} at once {one.first_ms:8.1f} ms ({one.first_ms - direct.first_ms:+8.1f})   "
                f"a token's way {one.way_ms:7.2f} ms"
            )
        if lite is not None:
            ours, theirs = found["egressd"], found["LiteLLM"]
            times_alone = (theirs.alone_ms - direct.alone_ms) / (ours.alone_ms - direct.alone_ms)
            times = (theirs.first_ms - direct.first_ms) / (ours.first_ms - direct.first_ms)
            yield f"egressd adds {times_alone:.1f} times less than LiteLLM alone, {times:.1f} times with {_AT_ONCE} at once"
        yield _memory(box, targets["egressd"])
        if lite is not None:
            yield f"LiteLLM's memory {rss_kib(lite[1]) / 1024:5.0f} MiB"
