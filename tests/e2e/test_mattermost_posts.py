"""Posts in a running box: what a session may say where, as its label rises, told by the real brokerd and egressd."""

import json
from pathlib import Path

import pytest

from proto.labels import DataClass
from proto.messages import broker
from tests.e2e.box import Box, running
from tests.egressd.mattermost.asking import SESSION, Asking
from tests.fakes.mattermost import FakeMattermost

pytestmark = pytest.mark.e2e


def _open(box: Box, session: str, principal: str) -> None:
    opening = broker.SessionOpen(
        session=session, new=True, session_kind="mattermost", principal=principal, principal_class=DataClass.SECRET,
        domain="dom-me", destination="chat", auth="key", tree=None, task=None, class_=DataClass.PRIVATE, untrusted=False,
    )  # fmt: skip
    box.ask("loop-broker", opening, broker.SessionState)


def test_a_secret_is_posted_to_the_owner_alone(home: Path) -> None:
    with (
        FakeMattermost() as server,
        running(home, "brokerd", "egressd", environ={"MATTERMOST_TOKEN": server.bot_token}) as box,
    ):
        asking = Asking(box, server)
        dm, town, private = server.dm["id"], server.town["id"], server.private["id"]
        ceilings = {dm: "secret", town: "public", private: "secret"}
        asking.grants(
            more="".join(f'[mattermost.channels.{channel}]\nceiling = "{one}"\n' for channel, one in ceilings.items())
        )

        def said(channel: str) -> tuple[int, str]:
            answer = asking.post("posts", {"channel_id": channel, "message": "a"})
            return answer.status, json.loads(answer.body)["id"] if answer.status != 201 else ""

        assert said(dm) == (403, "boxmaker.session-not-open")
        assert asking.read("users/me").status == 200
        _open(box, SESSION, server.owner["id"])
        assert said(dm) == (201, "")
        assert said(private) == (201, "")
        assert said(town) == (403, "boxmaker.channel-ceiling")
        label = broker.SessionLabel(session=SESSION, class_=DataClass.SECRET, untrusted=False)
        box.ask("loop-broker", label, broker.SessionState)
        assert said(dm) == (201, "")
        assert said(private) == (403, "boxmaker.channel-ceiling")
        assert [len(server.posts(one)) for one in (server.dm, server.private, server.town)] == [2, 1, 0]

        asking.grants(ceiling="private", more=f'[mattermost.channels.{dm}]\nceiling = "secret"\n')
        assert said(dm) == (403, "boxmaker.ceiling")
        assert asking.read(f"channels/{dm}/posts").status == 200
        lines = box.ask("owner-broker", broker.Decisions(last=50), broker.DecisionsReply).decisions
        posts = [line for line in lines if line["kind"] == "decision" and line["what"] == "post"]
        assert [(line["channel"], line["direct"], line["verdict"]) for line in posts if line["verdict"] == "allow"] == [
            (dm, True, "allow"), (private, False, "allow"), (dm, True, "allow"),
        ]  # fmt: skip
