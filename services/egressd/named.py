"""What a request's body names that decides what may become of it: its model, the most it can answer, tools."""

from typing import Any, Final, NamedTuple

from egressd.bodies import Object, field, folded, object_of, parse
from egressd.hosted import hosted
from egressd.meter.usage import first, tokens
from egressd.remote import remote
from proto.faults import Fault
from proto.rules import ModelApi

UNSEEN_TOKENS: Final = 1_000_000
"""What a conversation or a file that the provider keeps is taken to have: as much as the longest context of a model."""
_LONGEST_MODEL_CHARS: Final = 256


_USUAL: Final[dict[str, tuple[object, ...]]] = {
    "servicetier": (None, "auto", "default", "standard", "standard_only", "on_demand", "flex"),
    "speed": (None, "standard"),
    "inferencegeo": (None, "global"),
}
"""Fields, by their folded names, that can ask for tokens at another price; with these values they ask for none that is
higher than a model's own. Sources: the pricing pages of OpenAI and Anthropic; Groq, "Service Tiers"."""


class Named(NamedTuple):
    """The model; the most tokens of an answer, or None where none is named; how many answers; hosted tools by name;
    how many tokens of its prompt the request may name without holding them; whether it asks for a dearer tier.
    """

    model: str = ""
    most_output: int | None = None
    answers: int = 1
    hosted_tools: tuple[str, ...] = ()
    unseen_tokens: int = 0
    dearer: bool = False


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
    if answers is not None and tokens(answers) is None:
        # Some read a number in a text, too: one answer that is reserved for would be many.
        raise Fault("request-invalid", "the number of answers in the body of the request is none")
    inner = object_of(body, "request") if api == "code-assist" else body
    elsewhere = remote(api, inner)
    unseen_tokens = UNSEEN_TOKENS if elsewhere.recalls else 0
    dearer = any(field(body, name) not in _USUAL[name] for name in _USUAL.keys() & body.by_name.keys())
    tools = hosted(api, body, model, elsewhere)
    return Named(model, most, first(answers) or 1, tools, unseen_tokens, dearer)


def _model(untrusted: Any) -> str:
    if not isinstance(untrusted, str) or len(untrusted) > _LONGEST_MODEL_CHARS:
        return ""
    return untrusted


def _output(api: ModelApi, body: Object) -> tuple[int | None, Any]:
    """The most tokens of an answer, and the number of answers as the request has it."""
    match api:
        case "anthropic":
            return _most(body, "max_tokens"), 1
        case "openai-responses":
            return _most(body, "max_output_tokens"), 1
        case "openai-chat":
            return _most(body, "max_completion_tokens", "max_tokens"), field(body, "n")
        case "gemini":
            return _generated(body)
        case "code-assist":
            return _generated(object_of(body, "request"))


def _generated(body: Object) -> tuple[int | None, Any]:
    config = object_of(body, "generationconfig")
    most = _most(config, "maxOutputTokens", "max_output_tokens")
    known = "generationConfig" in body or "generation_config" in body
    return most if known else None, field(config, "candidatecount")


def _most(body: Object, *names: str) -> int | None:
    """The largest number under some names, spelt just so.

    Spelt otherwise, it is none to a server that heeds the spelling, and its answer has no bound; what is reserved would
    be too little.
    """
    for name in names:
        field(body, folded(name))
    return max((count for name in names if (count := tokens(body.get(name))) is not None), default=None)
