"""What the owner is told of the channel: that it is connected, or why it is not."""

from pathlib import Path

import anyio
import pytest

from proto.messages.loop import Channels, ChannelsReply, ChannelState
from tests.loopd.channels.thread_rig import linked, threads
from tests.loopd.rig import Rig, loopd, world

pytestmark = pytest.mark.anyio


async def _is(rig: Rig, *channels: tuple[str | None, str | None]) -> None:
    wanted = [ChannelState(channel="mattermost", why=why, runbook=runbook) for why, runbook in channels]
    with anyio.fail_after(10):
        while (await rig.ask(Channels(), ChannelsReply)).channels != wanted:  # noqa: ASYNC110  (no event of ours)
            await anyio.sleep(0.02)


async def test_a_channel_that_is_connected(home: Path) -> None:
    with threads(home) as outside:
        async with linked(outside) as rig:
            await _is(rig, (None, None))


async def test_a_user_whom_the_server_does_not_know(home: Path) -> None:
    why = "HTTP 404 app.user.get.app_error: Unable to get the user. (@nobody)"
    with threads(home, config='users = ["@nobody"]\n') as outside:
        async with loopd(outside.world.home) as rig:
            await _is(rig, (why, "mattermost-refused"))


async def test_a_token_that_is_refused(home: Path) -> None:
    with threads(home) as outside:
        outside.server.faults.refuse_token = True
        async with loopd(outside.world.home) as rig:
            await _is(rig, ("HTTP 401 api.context.session_expired.app_error", "mattermost-refused"))


async def test_there_is_none_where_none_is_switched_on(home: Path) -> None:
    with world(home) as outside:
        async with loopd(outside.home) as rig:
            await _is(rig)
