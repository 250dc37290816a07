"""What a daemon answers, read: one of the replies that were asked for, or the fault that an error tells of."""

from functools import cache
from typing import Any

import msgspec

from proto import frame
from proto.faults import FAULTS, Fault
from proto.messages.wire import Error


@cache
def decoder(kinds: tuple[type[msgspec.Struct], ...]) -> frame.Decoder:
    """What decodes some kinds of replies, and errors."""
    return frame.Decoder((Error, *kinds))


def reply(decoding: frame.Decoder, body: bytes) -> Any:
    """The reply in the body of a frame.

    Raises:
        Fault: what the daemon answered as an `error`, `internal` where its code is not known here; `reply-unexpected`
            when the answer is none of those asked for.

    """
    try:
        answer = decoding.decode(body)
    except Fault as fault:
        raise Fault("reply-unexpected", fault.message) from None
    if isinstance(answer, Error):
        raise fault_of(answer)
    return answer


def fault_of(error: Error) -> Fault:
    """The fault that an error tells of: `internal` where its code is not known here."""
    if error.code in FAULTS:
        return Fault(error.code, error.message)
    return Fault("internal", f"{error.code}: {error.message}")
