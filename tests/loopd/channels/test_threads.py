"""Threads over real sockets: each post of the owner is a turn in its thread's session, answered there once."""

from pathlib import Path

import pytest

from tests.loopd.channels.thread_rig import linked, threads
from tests.loopd.rig import until

pytestmark = pytest.mark.anyio


async def test_a_post_is_answered_in_its_thread(home: Path) -> None:
    with threads(home, [{"text": "Good morning to you."}]) as outside:
        async with linked(outside):
            post = outside.server.say(outside.server.owner, outside.server.dm, "good morning")
            await outside.answered(outside.server.dm, "Good morning to you.", root=post)
            (answer,) = [p for p in outside.server.posts(outside.server.dm, post) if p["root_id"]]
            assert answer["props"]["boxmaker"] == f"mm-{post['id']}/{post['id']}/1"
            await until(lambda: outside.world.memory.updated == [f"mm-{post['id']}"])
        assert outside.log(post) == [
            {"kind": "user", "text": "good morning", "author": None},
            {"kind": "assistant", "content": "Good morning to you.", "tool_calls": []},
        ]
