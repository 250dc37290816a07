"""Asking the owner in tests: a call that is asked, his answer, and an answer that nobody waits for."""

import anyio.abc
import pytest

from proto.faults import Fault
from proto.messages.broker import ApprovalAnswer
from proto.messages.wire import Ok
from proto.role.call import call
from tests.brokerd.running import Brokerd, Wanted

URL = "https://example.org/"


async def asked(brokerd: Brokerd, tasks: anyio.abc.TaskGroup, url: str = URL) -> tuple[Wanted, str]:
    """A fetch that is asked of the owner, and the id of its question."""
    wanted = Wanted()
    tasks.start_soon(brokerd.asking, "http_fetch", {"url": url}, wanted)
    return wanted, await wanted.question()


async def answer(brokerd: Brokerd, approval: str, *, allow: bool, via: str = "owner-broker") -> None:
    """The owner's answer."""
    path = brokerd.owner_socket if via == "owner-broker" else brokerd.loop
    assert await call(path, ApprovalAnswer(approval=approval, allow=allow, by="me"), Ok) == Ok()


async def unknown(brokerd: Brokerd, approval: str, via: str = "owner-broker") -> None:
    """An answer to what does not wait."""
    with pytest.raises(Fault) as caught:
        await answer(brokerd, approval, allow=True, via=via)
    assert caught.value.code == "approval-unknown"


def prepare(brokerd: Brokerd) -> None:
    """A page, and a grant that asks."""
    brokerd.grant("web", mode="ask")
    brokerd.egressd.page(URL)
