"""What is changed in requests, only at destinations whose `quirks` say so, and only in what is named here.

Reasons (the document, "Confined", the gateway's table):

system-fold             Claude Code puts a `system` message among the others; Anthropic takes that, the chat templates
                        behind a gateway do not ("System message must be at the beginning"). Such messages are folded
                        into the request's `system`, in their order.
output-cap              Muse Code asks for 128k tokens of output whatever the catalog says; a model with a context of
                        131k refuses that. What a request asks for is capped at 32k (32,768).
function-response-fold  LiteLLM's translation of Gemini's shape (litellm/google_genai/adapters/transformation.py) reads
                        a `functionResponse` in contents of the role `user` alone, and puts the texts of such a content
                        before the results of its tools, which chat templates refuse. Contents with a
                        `functionResponse` get the role `user`, and what else is in them follows in a content of its
                        own.
models-catalog          is about a path, and stands in `routes`.

Whatever has not the shape that is changed stays as it is: a request that nothing applies to is the same to the byte.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from egressd.bodies import parse
from egressd.edits import Edit, Value, beginning, edited, items, member, members, without
from proto.rules import Api

OUTPUT_CAP: Final = 32_768

_Rewrite = Callable[[str, int], list[Edit]]


def rewritten(api: Api, data: bytes, quirks: Sequence[str]) -> bytes | None:
    """A body as a destination wants it, or None for one that stays as it is.

    Raises:
        Fault: `request-invalid`: it is not a JSON object, or could be read in two ways.

    """
    rewrites = [found for quirk in quirks if (found := REWRITES.get((quirk, api)))]
    if not rewrites:
        return None
    parse(data)
    text = before = data.decode("utf-8")
    for rewrite in rewrites:
        text = edited(text, rewrite(text, beginning(text)))
    return None if text is before or text == before else text.encode("utf-8")


def _system_fold(text: str, start: int) -> list[Edit]:
    messages = member(text, start, "messages")
    if messages is None or not isinstance(messages.value, list):
        return []
    found = list(items(text, messages.start))
    late = [one for one in found if isinstance(one.value, dict) and one.value.get("role") == "system"]
    texts = [content for one in late if (content := member(text, one.start, "content"))]
    if not late or len(late) == len(found) or not all(_is_text(one.value) for one in texts):
        return []
    system = member(text, start, "system")
    if system is not None and system.value is not None and not _is_text(system.value):
        return []
    edits = without(found, {one.start for one in late})
    parts = [*([system] if system is not None and system.value else []), *texts]
    folded = _joined(text, parts)
    if system is None:
        edits.append(Edit(start + 1, start + 1, f'"system":{folded},'))
    else:
        edits.append(Edit(system.start, system.end, folded))
    return edits


def _is_text(value: Any) -> bool:
    """Whether a value is what `system` can be: a text, or a list of blocks."""
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, dict) for one in value))


def _joined(text: str, parts: list[Value]) -> str:
    """Texts as one text; with a list of blocks among them, as a list of blocks, each as it stood."""
    if all(isinstance(part.value, str) for part in parts):
        return '"' + "\\n\\n".join(text[part.start + 1 : part.end - 1] for part in parts) + '"'
    blocks: list[str] = []
    for part in parts:
        if isinstance(part.value, str):
            blocks.append(f'{{"type":"text","text":{text[part.start : part.end]}}}')
        else:
            blocks += [text[block.start : block.end] for block in items(text, part.start)]
    return f"[{','.join(blocks)}]"


def _capped(*names: str) -> _Rewrite:
    def cap(text: str, start: int) -> list[Edit]:
        return [
            Edit(one.start, one.end, str(OUTPUT_CAP))
            for one in members(text, start)
            if one.key in names
            and isinstance(one.value, int | float)
            and not isinstance(one.value, bool)
            and one.value > OUTPUT_CAP
        ]

    return cap


def _inside(keys: tuple[str, ...], rewrite: _Rewrite) -> _Rewrite:
    """A rewrite of the object that a member is."""

    def within(text: str, start: int) -> list[Edit]:
        found = member(text, start, *keys)
        return rewrite(text, found.start) if found is not None and isinstance(found.value, dict) else []

    return within


def _function_response_fold(text: str, start: int) -> list[Edit]:
    contents = member(text, start, "contents")
    if contents is None or not isinstance(contents.value, list):
        return []
    return [
        edit
        for content in items(text, contents.start)
        if isinstance(content.value, dict) and isinstance(content.value.get("parts"), list)
        for edit in _content(text, content)
    ]


def _content(text: str, content: Value) -> list[Edit]:
    """The edits of one content: its role, and a content of its own for what stands beside the results of tools."""
    parts = member(text, content.start, "parts")
    if parts is None:
        return []
    all_parts = list(items(text, parts.start))
    results = [one for one in all_parts if isinstance(one.value, dict) and "functionResponse" in one.value]
    if not results:
        return []
    edits: list[Edit] = []
    role = member(text, content.start, "role")
    if role is not None and role.value != "user":
        edits.append(Edit(role.start, role.end, '"user"'))
    starts = {one.start for one in results}
    beside = [one for one in all_parts if one.start not in starts]
    if beside:
        edits += without(all_parts, {one.start for one in beside})
        rest = ",".join(text[one.start : one.end] for one in beside)
        edits.append(Edit(content.end, content.end, f',{{"role":"user","parts":[{rest}]}}'))
    return edits


_GENERATION: Final = ("generationConfig", "generation_config")
_GEMINI_CAP: Final = _inside(_GENERATION, _capped("maxOutputTokens", "max_output_tokens"))
_REQUEST: Final = ("request",)

REWRITES: Final[dict[tuple[str, Api], _Rewrite]] = {
    ("system-fold", "anthropic"): _system_fold,
    ("output-cap", "openai-chat"): _capped("max_tokens", "max_completion_tokens"),
    ("output-cap", "openai-responses"): _capped("max_output_tokens"),
    ("output-cap", "anthropic"): _capped("max_tokens"),
    ("output-cap", "gemini"): _GEMINI_CAP,
    ("output-cap", "code-assist"): _inside(_REQUEST, _GEMINI_CAP),
    ("function-response-fold", "gemini"): _function_response_fold,
    ("function-response-fold", "code-assist"): _inside(_REQUEST, _function_response_fold),
}
"""By quirk and API; a pair that is not here changes nothing."""
