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
    if not isinstance(answer, Error):
        return answer
    if answer.code in FAULTS:
        raise Fault(answer.code, answer.message)
    raise Fault("internal", f"{answer.code}: {answer.message}")
