"""A brokerd for a test: the real one in the test's event loop, over real sockets, with fakes for its peers.

Features: asks as loopd, as egressd and as the owner; opens sessions; writes grants, policy and grants.toml; reads the audit
log and the label that is on disk.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec

from brokerd import app
from proto.labels import PRIVATE, DataClass, Label
from proto.messages.broker import (
    ApprovalWanted,
    EgressAsk,
    EgressAsks,
    EgressDecision,
    EgressDecisions,
    SessionLabel,
    SessionOpen,
    SessionState,
    ToolRequest,
    ToolResponse,
)
from proto.messages.wire import Error
from proto.role.call import call, stream
from proto.role.main import Arguments
from proto.role.replies import fault_of
from proto.sockets import socket
from tests.fakes.egressd import FakeEgressd
from tests.fakes.memoryd import FakeMemoryd

S = "chat-1"


class Brokerd:
    """brokerd and its peers."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.memoryd = FakeMemoryd(home)
        self.egressd = FakeEgressd(home)
        self.loop = socket("loop-broker").at(home)
        self.owner_socket = socket("owner-broker").at(home)
        self.egress = socket("egress-broker", "broker.sock").at(home)

    def write(self, path: str, text: str) -> None:
        """Write one of the owner's files."""
        full = self.home / path
        full.parent.mkdir(mode=0o700, exist_ok=True)
        full.write_text(text)

    def grant(self, name: str, **says: Any) -> None:
        """Write a grant of http_fetch, unless another tool is named."""
        says = {"tool": "http_fetch", "mode": "auto", **says}
        self.write(f"grants/{name}.toml", "".join(f"{key} = {_toml(value)}\n" for key, value in says.items()))

    async def open(self, session: str = S, label: Label = PRIVATE, *, new: bool = True) -> Label:
        """Open a session; the label that brokerd says it has."""
        return label_of(await call(self.loop, opening(session, label, new=new), SessionState))

    async def raise_label(self, label: Label, session: str = S) -> Label:
        """Raise a session's label as loopd does."""
        request = SessionLabel(session=session, class_=label.class_, untrusted=label.untrusted)
        return label_of(await call(self.loop, request, SessionState))

    async def tool(
        self, tool: str, arguments: dict[str, Any], *, session: str = S, call_id: str = "c1"
    ) -> ToolResponse:
        """A tool call that is not asked of the owner."""
        request = ToolRequest(session=session, call=call_id, tool=tool, arguments=arguments)
        reply: ToolResponse = await call(self.loop, request, ToolResponse)
        return reply

    async def fetch(self, url: str, **more: Any) -> ToolResponse:
        """A fetch that is not asked of the owner."""
        return await self.tool("http_fetch", {"url": url}, **more)

    async def asking(
        self, tool: str, arguments: dict[str, Any], wanted: "Wanted", *, session: str = S, call_id: str = "c1"
    ) -> None:
        """A tool call that is asked of the owner: each question and the answer go to `wanted`."""
        request = ToolRequest(session=session, call=call_id, tool=tool, arguments=arguments)
        async with stream(self.loop, request, ApprovalWanted, ToolResponse) as answers:
            async for answer in answers:
                wanted.take(answer)

    async def leave(
        self, destination: str, session: str | None = S, *, method: str = "POST", path: str = "/v1", **more: Any
    ) -> EgressDecision:
        """Ask as egressd whether bytes may leave."""
        ask = EgressAsk(session=session, call="m1", destination=destination, method=method, path=path, **more)
        [answer] = await self.leave_all(ask)
        if isinstance(answer, Error):
            raise fault_of(answer)
        return answer

    async def leave_all(self, *asks: EgressAsk) -> list[EgressDecision | Error]:
        """Ask as egressd several questions at once."""
        reply: EgressDecisions = await call(self.egress, EgressAsks(asks=list(asks)), EgressDecisions)
        return reply.answers

    async def owner(self, request: msgspec.Struct, reply: type[msgspec.Struct]) -> Any:
        """Ask as the owner."""
        return await call(self.owner_socket, request, reply)

    def audit(self, kind: str | None = None) -> list[dict[str, Any]]:
        """The lines of the audit log."""
        path = self.home / "audit/decisions.jsonl"
        lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines()] if path.exists() else []
        return [line for line in lines if kind in (None, line["kind"])]

    def stored_label(self, session: str = S) -> Label:
        """The label of a session that is on disk."""
        path = self.home / f"state/brokerd/sessions/{session}.json"
        return msgspec.json.decode(path.read_bytes(), type=Label)


class Wanted:
    """What a call that is asked of the owner has heard so far."""

    def __init__(self) -> None:
        self.questions: list[ApprovalWanted] = []
        self.response: ToolResponse | None = None
        self._heard = anyio.Event()

    def take(self, answer: ApprovalWanted | ToolResponse) -> None:
        """Note a frame."""
        if isinstance(answer, ApprovalWanted):
            self.questions.append(answer)
        else:
            self.response = answer
        self._heard.set()

    async def question(self, number: int = 1) -> str:
        """The id of a question, once it was asked."""
        while len(self.questions) < number:
            assert self.response is None, self.response
            await self._more()
        return self.questions[number - 1].approval

    async def answer(self) -> ToolResponse:
        """The answer, once it is there."""
        while self.response is None:
            await self._more()
        return self.response

    async def _more(self) -> None:
        self._heard = anyio.Event()
        with anyio.fail_after(20):
            await self._heard.wait()


@asynccontextmanager
async def running(home: Path, *, config: str | None = None, memoryd: bool = True) -> AsyncIterator[Brokerd]:
    """Run brokerd and its peers inside the block."""
    brokerd = Brokerd(home)
    path = home / "brokerd.toml"
    if config is not None:
        path.write_text(config)
    async with anyio.create_task_group() as tasks:
        ready = anyio.Event()
        tasks.start_soon(app.run, Arguments(config=path if config is not None else None, home=str(home)), ready.set)
        async with brokerd.egressd.running():
            await ready.wait()
            if memoryd:
                async with brokerd.memoryd.running():
                    yield brokerd
            else:
                yield brokerd
        tasks.cancel_scope.cancel()


def opening(session: str = S, label: Label = PRIVATE, *, new: bool = True) -> SessionOpen:
    """A `session_open` as loopd sends it."""
    return SessionOpen(
        session=session,
        new=new,
        session_kind="chat",
        principal="owner",
        principal_class=DataClass.SECRET,
        domain="dom-me",
        destination="local",
        auth="none",
        tree=None,
        task=None,
        class_=label.class_,
        untrusted=label.untrusted,
    )


def label_of(state: SessionState | ToolResponse | EgressDecision) -> Label:
    """The label in a reply."""
    return Label(class_=state.class_, untrusted=state.untrusted)


def _toml(value: Any) -> str:
    return msgspec.json.encode(value).decode()
