"""What egressd tells of each model call: a span `model.call`, with OpenTelemetry's GenAI words beside ours.

Source: semantic-conventions-genai 0.1.0, "Client inference". Nothing of a prompt or an answer is in it.
"""

from collections.abc import Mapping
from typing import Final

from egressd.meter.usage import Usage, added
from egressd.ports import Beginning, Ending
from proto.messages.egress import HarnessUsage
from proto.messages.spans import Value
from proto.role import trace

NAME: Final = "model.call"
Attributes = Mapping[str, Value | None]
_PROVIDERS: Final = {
    "antigravity": "gcp.gemini",
    "chatgpt": "openai",
    "code-assist": "gcp.gemini",
    "gemini": "gcp.gemini",
    "grok": "x_ai",
    "xai": "x_ai",
}
"""Destinations whose provider has another name in the conventions; any other is called what the owner calls it."""
_GENERATING: Final = frozenset({"gemini", "code-assist"})
_TOLD_BY_THE_FAULT: Final = frozenset({"refused", "failed"})
"""Ends of calls that leave the span as a fault, whose code says more."""


def begun(call: Beginning) -> None:
    """The call of the span under way has begun."""
    if not trace.is_told():
        return
    trace.say(
        {
            **_of(call.session, call.call, call.destination, call.model),
            "boxmaker.observed_by": "egress",
            "boxmaker.auth": call.auth,
            "gen_ai.operation.name": "generate_content" if call.api in _GENERATING else "chat",
        }
    )


def ended(call: Ending) -> None:
    """It has ended, one way or another."""
    if not trace.is_told():
        return
    trace.say(
        {
            **_tokens(call.usage),
            "gen_ai.response.model": call.model,
            "http.response.status_code": call.status or None,
            "boxmaker.ended": call.ended,
            "boxmaker.partial": call.sent and not call.complete,
        }
    )
    if call.ended == "complete" and call.status >= 400:
        trace.fail(str(call.status))
    elif call.ended != "complete" and call.ended not in _TOLD_BY_THE_FAULT:
        trace.fail(call.ended)


def reported(report: HarnessUsage) -> None:
    """A harness's own account of a call: when it was, and how it ended, is not known."""
    usage = Usage(**{field: getattr(report, field) for field in Usage.__struct_fields__})
    said = {**_of(report.session, report.call, report.destination, report.model), **_tokens(usage)}
    more = {"boxmaker.observed_by": "harness", "gen_ai.operation.name": "chat", "gen_ai.response.model": report.model}
    trace.tell(NAME, trace.now_ns(), {**said, **more}, "client")


def _of(session: str, call: str, destination: str, model: str) -> Attributes:
    return {
        "boxmaker.session": session,
        "boxmaker.call": call,
        "boxmaker.destination": destination,
        "gen_ai.conversation.id": session,
        "gen_ai.provider.name": _PROVIDERS.get(destination, destination),
        "gen_ai.request.model": model or None,
    }


def _tokens(usage: Usage) -> Attributes:
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_write.input_tokens": added(usage.cache_write_5m_tokens, usage.cache_write_1h_tokens),
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }
