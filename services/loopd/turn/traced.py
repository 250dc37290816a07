"""A turn as a span, `session.turn`: the root of the trace that its model calls, decisions and reads belong to.

Tokens are not said here: each call that used them says so itself, and nothing is added up twice.
"""

from collections.abc import Mapping
from typing import Final

from loopd.session.baseline import Baseline

NAME: Final = "session.turn"


def of_session(baseline: Baseline) -> Mapping[str, str]:
    """What a turn says of its session, with OpenTelemetry's GenAI words beside ours."""
    return {
        "boxmaker.session": baseline.session,
        "boxmaker.destination": baseline.destination,
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "boxmaker",
        "gen_ai.conversation.id": baseline.session,
        "gen_ai.request.model": baseline.model,
    }
