"""What a request's body names that decides what may become of it: its model, the most it can answer, tools."""

from typing import Any, Final, NamedTuple

from egressd import hosted
from egressd.bodies import Object, field, object_of, parse
from egressd.meter.usage import first, tokens
from proto.faults import Fault
from proto.rules import ModelApi

_LONGEST_MODEL_CHARS: Final = 256


class Named(NamedTuple):
    """The model; the most tokens of an answer, or None where none is named; how many answers; hosted tools by name."""

    model: str = ""
    most_output: int | None = None
    answers: int = 1
    hosted_tools: tuple[str, ...] = ()


def named(api: ModelApi, data: bytes, model: str) -> Named:
    """What the body of a call names; the model is that of the path, if it has one.

    Raises:
        Fault: `request-invalid`.

    """
    body = parse(data)
    model = model or _model(field(body, "model"))
    if field(body, "background"):
        raise Fault("request-invalid", "a response in the background cannot be metered; ask for it in the foreground")
    most, answers = _output(api, body)
    return Named(model, tokens(most), first(answers) or 1, hosted.hosted(api, body, model))


def _model(untrusted: Any) -> str:
    if not isinstance(untrusted, str) or len(untrusted) > _LONGEST_MODEL_CHARS:
        return ""
    return untrusted


def _output(api: ModelApi, body: Object) -> tuple[Any, Any]:
    """The most tokens of an answer and the number of answers, as the request has them."""
    match api:
        case "anthropic":
            return field(body, "maxtokens"), 1
        case "openai-responses":
            return field(body, "maxoutputtokens"), 1
        case "openai-chat":
            both = [tokens(field(body, name)) for name in ("maxcompletiontokens", "maxtokens")]
            return max((one for one in both if one is not None), default=None), field(body, "n")
        case "gemini":
            return _generated(body)
        case "code-assist":
            return _generated(object_of(body, "request"))


def _generated(body: Object) -> tuple[Any, Any]:
    config = object_of(body, "generationconfig")
    return field(config, "maxoutputtokens"), field(config, "candidatecount")
