"""The closed union of kinds: one module for each daemon that is asked, `wire` for what every socket has.

A message is a frozen Struct whose `tag` is the frame's `kind`, given as a string. Requests may carry `trace`. A kind is
changed only together with `proto/schema.lock`.
"""

from typing import Final

import msgspec

from proto.messages import broker, egress, loop, memory, spans, wire

_MODULES: Final = (wire, memory, broker, egress, loop, spans)
_BASES: Final = (wire.Request, wire.Reply, wire.Datagram)


def _kinds() -> dict[str, type[msgspec.Struct]]:
    found: dict[str, type[msgspec.Struct]] = {}
    for module in _MODULES:
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, _BASES) and value not in _BASES:
                kind = str(value.__struct_config__.tag)
                if found.setdefault(kind, value) is not value:
                    raise AssertionError(f"two messages of the kind {kind}")
    return found


KINDS: Final = _kinds()
"""Every kind of the wire, by name."""
