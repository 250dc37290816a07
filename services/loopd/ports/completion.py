"""A chat completion put together from its chunks, sans-IO (OpenAI API reference, "The chat completion chunk object").

Servers differ: a missing index, parallel calls that all have the index 0, arguments as a map, half a surrogate pair at
the end of a chunk. What can be understood is; the rest is a `ValueError` whose message is a sentence for the owner.
"""

from typing import Any, Final

from loopd.tools.calls import RawCall
from loopd.turn.steps import Answered
from proto.canon import compact

MOST_BYTES: Final = 768 << 10
"""An answer, with its reasoning and its calls, fits a frame and a record."""
MOST_CALLS: Final = 64
ADDED_TOKENS: Final = 4096
"""What a provider may put around a prompt; beside it, no byte is more than one token."""
_MOST_OUTPUT: Final = 1 << 32
GARBAGE: Final = "the model's answer cannot be read"
TOO_LONG: Final = "the model's answer is too long, and was not kept"
TOO_MANY: Final = "the model made too many tool calls at once"


class Unreadable(ValueError):
    """A chunk has not the shape of one; a server that differs more than can be understood."""

    def __init__(self) -> None:
        super().__init__(GARBAGE)


class Words:
    """A text that comes in pieces; a surrogate pair may be cut, and half of one becomes U+FFFD."""

    def __init__(self) -> None:
        self._done: list[str] = []
        self._half = ""

    def add(self, piece: str) -> str:
        """What of the text is certain after one more piece, and was not given before."""
        text = self._half + piece
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return self._keep(text[: len(text) - len(self._half)])

    def whole(self) -> str:
        """The text."""
        self._keep(self._half)
        self._half = ""
        return "".join(self._done)

    def _keep(self, text: str) -> str:
        fit = text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        self._done.append(fit)
        return fit


class _Call:
    def __init__(self) -> None:
        self.id = ""
        self.name = Words()
        self.arguments = Words()


class Completion:
    """One answer as it comes; `add` gives the words that can be shown."""

    def __init__(self, sent_bytes: int = MOST_BYTES) -> None:
        """`sent_bytes` is the size of what was asked; more tokens than it can be are no count of it."""
        self._most_input = sent_bytes + ADDED_TOKENS
        self.content = Words()
        self.finish = ""
        self._reasoning = Words()
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}
        self._input: int | None = None
        self._output: int | None = None
        self._bytes = 0

    def add(self, chunk: Any) -> str:
        """Take one chunk, or a whole completion that was not streamed; the new words of the answer.

        Raises:
            ValueError: it cannot be read, or the answer becomes too long.

        """
        if not isinstance(chunk, dict):
            raise Unreadable
        self._take_usage(chunk.get("usage"))
        shown = []
        for choice in _list(chunk.get("choices"))[:1]:
            if not isinstance(choice, dict):
                raise Unreadable
            self.finish = _text(choice.get("finish_reason")) or self.finish
            delta = choice.get("delta") or choice.get("message") or {}
            if not isinstance(delta, dict):
                raise Unreadable
            shown.append(self._take(delta))
        return "".join(shown)

    def answer(self) -> Answered:
        """The whole answer."""
        calls = tuple(RawCall(call.id, call.name.whole(), call.arguments.whole()) for call in self._calls)
        return Answered(self.content.whole(), self._reasoning.whole(), calls, self.finish, self._input, self._output)

    def _take(self, delta: dict[str, Any]) -> str:
        for number, piece in enumerate(_list(delta.get("tool_calls"))):
            self._take_call(piece, number)
        self._reasoning.add(self._sized(_text(delta.get("reasoning_content") or delta.get("reasoning"))))
        return self.content.add(self._sized(_words(delta.get("content")) + _text(delta.get("refusal"))))

    def _take_call(self, piece: Any, number: int) -> None:
        if not isinstance(piece, dict) or not isinstance(piece.get("function", {}), dict):
            raise Unreadable
        function = piece.get("function", {})
        untrusted_id = _text(piece.get("id"))
        call = self._call_of(piece.get("index"), untrusted_id, number)
        call.id = call.id or untrusted_id
        name = self._sized(_text(function.get("name")))
        # Some servers give the whole name with each piece, none cuts one so that both halves are the same.
        if name and name != call.name.whole():
            call.name.add(name)
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            arguments = compact(arguments)
        call.arguments.add(self._sized(_text(arguments)))

    def _call_of(self, index: Any, id: str, number: int) -> _Call:
        """The call that a piece belongs to: by its index, unless its id says that it is another one."""
        if not isinstance(index, int):
            # No index: a piece with an id of its own begins a call, any other goes on with the last one.
            last = self._calls[-1] if self._calls else None
            begins = last is None or (id and id != last.id) or number > 0
            index = len(self._calls) if begins else len(self._calls) - 1
        call = self._at.get(index)
        if call is None or (id and call.id and id != call.id):
            if len(self._calls) >= MOST_CALLS:
                raise ValueError(TOO_MANY)
            call = self._at[index] = _Call()
            self._calls.append(call)
        return call

    def _take_usage(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self._input = _count(usage.get("prompt_tokens"), self._input, self._most_input)
            self._output = _count(usage.get("completion_tokens"), self._output, _MOST_OUTPUT)

    def _sized(self, text: str) -> str:
        self._bytes += len(text.encode(errors="surrogatepass"))
        if self._bytes > MOST_BYTES:
            raise ValueError(TOO_LONG)
        return text


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise Unreadable
    return value


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Unreadable
    return value


def _words(content: Any) -> str:
    """Content as a text, or as parts of which some are text."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return _text(content)


def _count(value: Any, before: int | None, most: int) -> int | None:
    good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
    return value if good else before
