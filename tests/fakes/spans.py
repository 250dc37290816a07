"""A sink of spans: keeps what a daemon tells, and can be closed, as if nobody collected spans any more."""

from collections.abc import Iterator
from contextlib import contextmanager

from proto.messages.spans import Service, Span
from proto.role import trace


class KeptSpans:
    """What was told."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.open = True

    def is_open(self) -> bool:
        """Whether spans are wanted."""
        return self.open

    def send(self, span: Span) -> None:
        """Keep a span."""
        self.spans.append(span)


@contextmanager
def kept(service: Service) -> Iterator[KeptSpans]:
    """What this process tells in the name of a daemon inside the block, and nothing of what was under way before."""
    sink = KeptSpans()
    trace.follow(None)
    trace.start(service, sink)
    try:
        yield sink
    finally:
        trace.start(service, None)
        trace.follow(None)
