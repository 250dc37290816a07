"""The composite runtime: each decided call to the daemon that serves its tool."""

from pathlib import Path

import msgspec

from brokerd.grants.grant import Grant
from brokerd.runtime import fetch, memory
from brokerd.runtime.outcome import Done, Redirect
from proto.faults import Fault
from proto.labels import PRIVATE, Label, join
from proto.messages.broker import ToolRequest
from proto.tools import TOOLS


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A decided call: the request with this hop's arguments, its grant, and the session's label when it was decided."""

    request: ToolRequest
    grant: Grant
    taint: Label
    hop: int = 0


class Runtime:
    """Runs decided calls."""

    def __init__(self, memory_socket: Path, memory_s: float, egress_socket: Path, fetch_s: float) -> None:
        self._memory_socket = memory_socket
        self._memory_s = memory_s
        self._egress_socket = egress_socket
        self._fetch_s = fetch_s

    async def run(self, job: Job) -> Done | Redirect:
        """Run a call, or one hop of it; it raises nothing that is not a bug."""
        request = job.request
        match TOOLS[request.tool].runtime:
            case "memoryd":
                return await memory.run(self._memory_socket, self._memory_s, request, job.taint)
            case "egressd":
                return await fetch.run(
                    self._egress_socket,
                    self._fetch_s,
                    request,
                    loopback=job.grant.says.loopback,
                    hop=job.hop,
                )
            case "launcherd":
                return Done(ok=False, text=Fault("runtime-absent").message, granted=False)


def combined(grant: Grant, done: Done) -> Label:
    """The label of a result: the stricter of the grant's and the runtime's. A failure of the runtime is private."""
    own = grant.result_label if done.granted else PRIVATE
    return own if done.label is None else join(own, done.label)
