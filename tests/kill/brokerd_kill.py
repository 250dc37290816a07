"""Kills brokerd again and again while clients open, label and call in many sessions, and then looks at every label.

    python -m tests.kill.brokerd_kill --kills 1000

What must hold: no session's label is ever below one that was acknowledged, nor is an acknowledged session ever lost; a
result is never handed out under a label that is not on disk; a decision of each acknowledged call and of each answer to
egressd is in the audit log; the log's chain verifies, and no line of it is torn.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import anyio
import msgspec

from proto.faults import Fault
from proto.labels import PUBLIC, DataClass, Label, covers, join
from proto.messages.broker import EgressAsk, EgressDecision, SessionClose, SessionState, ToolRequest, ToolResponse
from proto.messages.memory import MemoryCall
from proto.messages.wire import Ok, Ping, Verify, VerifyReply
from proto.role.call import call
from tests.brokerd.running import Brokerd, label_of, opening

CLIENTS = 16
READY_S = 20.0
IN_ONE_HOME = 100
"""Kills; after each one everything in the home is looked at, which grows with every step of every client."""
_LABELS = (
    PUBLIC,
    PUBLIC,
    PUBLIC,
    Label(class_=DataClass.PRIVATE, untrusted=False),
    Label(class_=DataClass.PRIVATE, untrusted=True),
    Label(class_=DataClass.SECRET, untrusted=False),
)


class Outcome(NamedTuple):
    """What a run saw: kills, labels acknowledged (and by calls), sessions, and the lines of the audit log at the end."""

    kills: int
    acknowledged: int
    calls: int
    sessions: int
    lines: int


class Run:
    """A home with a brokerd that is killed and started again, and its clients."""

    def __init__(self, home: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.brokerd = Brokerd(home)
        self.brokerd.memoryd.answer = self._remembered
        self.known: dict[str, Label] = {}
        """For each session that was acknowledged, the join of every label that was."""
        self.calls: set[str] = set()
        self.left: set[str] = set()
        """The questions of egressd's that were answered."""
        self.acknowledged = 0
        self._number = 0
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Start brokerd and wait until it answers."""
        command = [sys.executable, "-m", "brokerd", "serve", "--home", str(self.brokerd.home)]
        with (self.brokerd.home / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: ASYNC220  (a test's)
        with anyio.fail_after(READY_S):
            for path in (self.brokerd.loop, self.brokerd.owner_socket, self.brokerd.egress):
                await call(path, Ping(), Ok, connect_within_s=READY_S)

    def kill(self) -> None:
        """End it by SIGKILL."""
        assert self._process is not None
        assert self._process.poll() is None, (self.brokerd.home / "log").read_text()
        self._process.kill()
        self._process.wait()

    async def client(self) -> None:
        """Ask until cancelled; what brokerd does not answer is not acknowledged."""
        while True:
            try:
                await self._step()
            except Fault as fault:
                if fault.code not in {"peer-unreachable", "session-not-open"}:
                    raise
                await anyio.sleep(0.02)

    async def _step(self) -> None:
        session = self.rng.choice(sorted(self.known)) if self.known and self.rng.random() < 0.9 else None
        if session is None:
            await self._open()
            return
        floor = self.known[session]
        match self.rng.randrange(5):
            case 0:
                self._note(session, await self.brokerd.raise_label(self.rng.choice(_LABELS), session), floor)
            case 1:
                request = opening(session, self.rng.choice(_LABELS), new=False)
                self._note(session, label_of(await call(self.brokerd.loop, request, SessionState)), floor)
            case 2 if self.rng.random() < 0.1:
                state = await call(self.brokerd.loop, SessionClose(session=session), SessionState)
                self._note(session, label_of(state), floor)
            case 3:
                await self._leave(session, floor)
            case _:
                await self._call(session)

    async def _leave(self, session: str, floor: Label) -> None:
        """Ask as egressd what waits at the same time."""
        numbers = range(self._number, self._number + self.rng.randint(1, 12))
        self._number = numbers.stop
        asks = [
            EgressAsk(session=session, call=f"m{number}", destination="local", method="POST", path="/v1")
            for number in numbers
        ]
        for ask, decision in zip(asks, await self.brokerd.leave_all(*asks), strict=True):
            assert isinstance(decision, EgressDecision), decision
            assert covers(label_of(decision), floor), (session, decision, floor)
            self.left.add(ask.call)

    async def _open(self) -> None:
        self._number += 1
        session = f"chat-{self._number}"
        label = await self.brokerd.open(session, self.rng.choice(_LABELS))
        self._note(session, label, label)

    async def _call(self, session: str) -> None:
        self._number += 1
        request = ToolRequest(session=session, call=f"c{self._number}", tool="recall", arguments={"query": "x"})
        reply: ToolResponse = await call(self.brokerd.loop, request, ToolResponse)
        if reply.ok:
            stored = self.brokerd.stored_label(session)
            assert covers(stored, label_of(reply)), (session, stored, reply)
            self._note(session, label_of(reply), label_of(reply))
            self.calls.add(request.call)

    def _note(self, session: str, label: Label, floor: Label) -> None:
        """An acknowledged label, which must not be below what had been acknowledged when it was asked for."""
        assert covers(label, floor), (session, label, floor)
        self.known[session] = join(self.known.get(session, PUBLIC), label)
        self.acknowledged += 1

    def _remembered(self, request: MemoryCall) -> msgspec.Struct:
        return self.brokerd.memoryd.response(request, "x", self.rng.choice(_LABELS))

    async def check(self) -> int:
        """Every session and the audit log after a start; the number of the log's lines."""
        reply: VerifyReply = await self.brokerd.owner(Verify(), VerifyReply)
        assert [state for state in reply.journals if state.first_bad is not None] == []
        for session in sorted(self.known):
            stored = self.brokerd.stored_label(session)
            assert covers(stored, self.known[session]), (session, stored, self.known[session])
        return sum(state.lines for state in reply.journals)

    async def check_calls(self) -> None:
        """Each acknowledged call and answer has its decision in the log, and what memoryd was asked had one before."""
        decided = {str(line["call"]) for line in self.brokerd.audit("decision") if "tool" in line}
        assert self.calls <= decided
        assert self.left <= {str(line["call"]) for line in self.brokerd.audit("decision") if "what" in line}
        assert {sent.request.call for sent in self.brokerd.memoryd.calls} <= decided
        assert self.brokerd.audit("chain_break") == []
        for session, label in self.known.items():
            state = await call(self.brokerd.loop, opening(session, PUBLIC, new=False), SessionState)
            assert covers(label_of(state), label), (session, state, label)


async def _run(home: Path, kills: int, seed: int) -> Outcome:
    run = Run(home, seed)
    lines = 0
    async with run.brokerd.memoryd.running(), run.brokerd.egressd.running():
        await run.start()
        async with anyio.create_task_group() as tasks:
            for _ in range(CLIENTS):
                tasks.start_soon(run.client)
            for _ in range(kills):
                # Often at once, while sessions are opened and labelled; sometimes once the policy has loaded and calls run.
                await anyio.sleep(run.rng.choice((run.rng.uniform(0.0, 0.1), run.rng.uniform(0.2, 0.7))))
                run.kill()
                await run.start()
                lines = await run.check()
            tasks.cancel_scope.cancel()
        await run.check_calls()
        run.kill()
    return Outcome(kills, run.acknowledged, len(run.calls), len(run.known), lines)


def run(kills: int, seed: int = 7) -> Outcome:
    """Kill so many times in one home; raises when something that must hold did not."""
    home = Path(tempfile.mkdtemp(prefix="bx"))
    try:
        return anyio.run(_run, home, kills, seed)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=7)
    parsed = parser.parse_args(arguments)
    total = Outcome(0, 0, 0, 0, 0)
    for number, done in enumerate(range(0, parsed.kills, IN_ONE_HOME)):
        outcome = run(min(IN_ONE_HOME, parsed.kills - done), parsed.seed + number)
        total = Outcome(*map(sum, zip(total, outcome, strict=True)))
        print(f"brokerd: {_told(total)} so far", file=sys.stderr, flush=True)
    print(f"brokerd: {_told(total)}: no label fell, the chain verifies")


def _told(outcome: Outcome) -> str:
    return (
        f"{outcome.kills} kills, {outcome.acknowledged} labels acknowledged in {outcome.sessions} sessions, "
        f"{outcome.calls} of them by calls, {outcome.lines} lines of audit"
    )


if __name__ == "__main__":
    main()
