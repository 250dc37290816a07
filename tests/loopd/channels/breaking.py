"""A Mattermost that breaks again and again while people write: the soak of the tests, and that of the bench.

`soak` says how many posts in how many threads, and how often it breaks; what comes of it is for the caller to judge.
"""

import random
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from tests.fakes.mattermost import FakeMattermost
from tests.loopd.channels.thread_rig import Threads, linked, threads

QUICK = "reconnect_most_s = 0.02\nping_s = 2.0\nedit_every_s = 5.0\n"
KINDS = ("reset", "close", "gap", "lose", "5xx", "429", "silent", "duplicate", "refuse", "token")
Map = dict[str, Any]


class Soaked(NamedTuple):
    """For each thread, what was said to the box and the texts of the answers, in their order; how often it broke."""

    said: dict[str, list[str]]
    heard: dict[str, list[str]]
    answered: dict[str, list[str]]
    breaks: int


async def soak(home: Path, posts: int, breaks: int, roots: int = 8, seed: int = 5) -> Soaked:
    """Run loopd through it."""
    chosen = random.Random(seed)
    with threads(home, [], pace=QUICK, otherwise={"text": "yes"}) as outside:
        said: dict[str, list[str]] = {}
        async with linked(outside):
            begun = [outside.server.say(outside.server.owner, outside.server.dm, f"thread {n}") for n in range(roots)]
            said = {root["id"]: [root["message"]] for root in begun}
            done = 0
            for number in range(posts - roots):
                root = chosen.choice(begun)
                said[root["id"]].append(f"post {number}")
                outside.server.say(outside.server.owner, outside.server.dm, f"post {number}", root)
                while done < breaks * (number + 1) // (posts - roots):
                    await broken(outside.server, chosen.choice(KINDS))
                    done += 1
                await anyio.sleep(0.001)
            mend(outside.server)
            await until_answered(outside, posts)
        return Soaked(
            said,
            {root["id"]: [line["text"] for line in outside.log(root) if line["kind"] == "user"] for root in begun},
            {root["id"]: outside.said(outside.server.dm, root) for root in begun},
            done,
        )


async def until_answered(outside: Threads, posts: int) -> None:
    """Wait until every post has its answer, and no longer than it takes."""
    last, quiet_s = -1, 0.0
    while (count := len(answers(outside.server))) < posts and quiet_s < 15:
        quiet_s = quiet_s + 0.05 if count == last else 0.0
        last = count
        await anyio.sleep(0.05)


def answers(server: FakeMattermost) -> list[Map]:
    """The bot's posts."""
    return [post for post in server.posts(server.dm) if post["user_id"] == server.bot["id"]]


async def broken(server: FakeMattermost, kind: str) -> None:
    """Break something that is whole; what is silent or refuses mends after a while."""
    with anyio.move_on_after(0.5):
        while not server.connected:  # noqa: ASYNC110  (the server sets no event of ours)
            await anyio.sleep(0.002)
    match kind:
        case "reset":
            server.reset_connections()
        case "close":
            server.close_connections()
        case "gap":
            server.faults.drop_next(1)
        case "lose":
            server.faults.lose_answer_next(1)
        case "5xx":
            server.faults.fail_next(2, 503)
        case "429":
            server.faults.limit_next(1, "epoch", 0)
        case "duplicate":
            server.faults.duplicate_next(1)
        case "silent":
            server.faults.silent = True
            await anyio.sleep(0.005)
            server.faults.silent = False
            server.reset_connections()
        case "refuse":
            server.faults.refuse_upgrade = 502
            server.reset_connections()
            await anyio.sleep(0.01)
            server.faults.refuse_upgrade = 0
        case "token":
            server.faults.refuse_token = True
            await anyio.sleep(0.005)
            server.faults.refuse_token = False
            server.reset_connections()
        case _:
            raise AssertionError(kind)


def mend(server: FakeMattermost) -> None:
    """Let nothing break any more."""
    server.faults.dropping = server.faults.losing_answers = server.faults.failing = server.faults.limiting = 0
    server.reset_connections()
