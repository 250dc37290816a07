"""What is kept of a server: asked for once, not for ever, and never of an answer that is no answer."""

import json
from typing import Any

import pytest

from egressd.mattermost import known
from egressd.mattermost.known import Known
from proto.faults import Fault

pytestmark = pytest.mark.anyio
BOT, OWNER, OTHER = "b" * 26, "o" * 26, "x" * 26


class Server:
    """Answers, and counts."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {"users/me": {"id": BOT, "username": "bot"}, **answers}
        self.looked: list[str] = []

    async def look(self, path: str) -> bytes:
        self.looked.append(path)
        found = self.answers.get(path.replace("/", "_"), self.answers.get(path))
        return found if isinstance(found, bytes) else json.dumps(found).encode()


@pytest.mark.parametrize(
    ("kind", "members", "direct"),
    [
        ("D", (BOT, OWNER), True),
        ("D", (OWNER, BOT), True),
        ("D", (OWNER, OTHER), False),
        ("D", (BOT, OTHER), False),
        ("D", (OWNER, OWNER), False),
        ("G", (BOT, OWNER), False),
        ("P", (BOT, OWNER), False),
        ("D", (BOT, OWNER, OTHER), False),
        ("D", ("", OWNER), False),
    ],
)
async def test_direct_is_the_channel_of_the_two_alone(kind: str, members: tuple[str, ...], direct: bool) -> None:
    server = Server(channels_c={"type": kind, "name": "__".join(members), "id": "c"})
    kept = Known()
    for _ in range(2):
        assert await kept.is_direct("c", OWNER, server.look) is direct
    assert len(server.looked) == len(set(server.looked))
    assert not await kept.is_direct("c", BOT, server.look)


async def test_so_much_is_kept_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "_MOST_KEPT", 2)
    server = Server(**{f"posts_{name}": {"channel_id": name * 26} for name in "abc"})
    kept = Known()
    for name in "abcbca":
        assert await kept.channel_of(name, server.look) == name * 26
    assert server.looked == ["posts/a", "posts/b", "posts/c", "posts/a"]


@pytest.mark.parametrize("answer", [b"", b"{", b"[]", b"{}", b'{"channel_id":"town"}', b'{"channel_id":1}', b"\xff"])
async def test_an_answer_that_is_none_is_a_fault(answer: bytes) -> None:
    with pytest.raises(Fault) as fault:
        await Known().channel_of("a", Server(posts_a=answer).look)
    assert fault.value.code == "upstream-unreachable"
