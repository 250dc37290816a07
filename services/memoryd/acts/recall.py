"""Answering a question from the index, and logging what was answered with what (M5a sections 3 and 5)."""

import msgspec

from memoryd.holdings import Holdings
from memoryd.index import RecallAnswer
from proto.tools import RecallArguments


def recall(holdings: Holdings, session: str, arguments: RecallArguments) -> RecallAnswer:
    """The hits as a text with its label; the recall is on the log when it returns.

    Raises:
        Fault: `memory-index-damaged`.
        OSError: it cannot be logged.

    """
    answer = holdings.index.recall(arguments.query, arguments.k)
    hits = [msgspec.to_builtins(hit) for hit in answer.hits]
    sources = [{name: hit[name] for name in ("kind", "session", "epoch", "record", "time")} for hit in hits]
    holdings.recalls.append(session, arguments.query, sources)
    return answer
