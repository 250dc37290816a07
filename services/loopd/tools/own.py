"""The two tools that loopd serves itself, pure: clock and find_tool. Their results are public and trusted."""

from datetime import UTC, datetime
from typing import Any

from loopd.tools.catalogue import find
from proto.role.clock import stamp


def answer(tool: str, arguments: dict[str, Any], now: datetime) -> str:
    """The result of a call.

    Raises:
        ValueError: the arguments have not the tool's shape; the message is the sentence for the model.

    """
    if tool == "clock":
        # The weekday too: a model that works it out from the date is often wrong.
        return f"{stamp(now)} ({now.astimezone(UTC):%A})"
    query = arguments.get("query")
    if not isinstance(query, str):
        raise ValueError('refused: find_tool takes {"query": a text}')  # noqa: TRY004  (a refusal, not a bug)
    return find(query)
