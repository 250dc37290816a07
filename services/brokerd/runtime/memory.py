"""Memory calls: one `memory_call` to memoryd, with the session's label as brokerd held it when it decided."""

from pathlib import Path

import anyio

from brokerd.runtime.outcome import Done
from proto.faults import Fault
from proto.labels import Label
from proto.messages.broker import ToolRequest, ToolResponse
from proto.messages.memory import MemoryCall
from proto.role.call import call


async def run(socket: Path, timeout_s: float, request: ToolRequest, taint: Label) -> Done:
    """The call's result; memoryd's fault, or its silence, is a failure with its sentence.

    A connect is tried again until the time is over; a request that was sent is never sent twice.
    """
    message = MemoryCall(
        request=ToolRequest(session=request.session, call=request.call, tool=request.tool, arguments=request.arguments),
        taint=taint.class_,
        untrusted=taint.untrusted,
        trace=request.trace,
    )
    try:
        with anyio.fail_after(timeout_s):
            reply: ToolResponse = await call(
                socket,
                message,
                ToolResponse,
                timeout_s=timeout_s,
                connect_within_s=timeout_s,
                unreachable="memoryd-unreachable",
            )
        if reply.call != request.call:
            raise Fault("reply-unexpected")
    except TimeoutError:
        return Done(ok=False, text=str(Fault("memoryd-unreachable")), granted=False)
    except Fault as fault:
        return Done(ok=False, text=str(fault), granted=False)
    return Done(ok=reply.ok, text=reply.text, label=Label(class_=reply.class_, untrusted=reply.untrusted))
