"""A chat completion request, in the shapes of OpenAI's API (platform.openai.com/docs/api-reference/chat/create).

Fields that this server has no use for are ignored, as OpenAI's servers do. What is here has its type, or the request is
refused with the place that is wrong.
"""

from typing import Annotated, Any, Final, Literal

import msgspec

_MOST_MESSAGES: Final = 10_000


class RequestError(Exception):
    """The request cannot be served; answered in OpenAI's shape, and whose fault it was is in the status."""

    def __init__(self, message: str, *, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code


class Part(msgspec.Struct, frozen=True):
    """A piece of content; only those of type `text` can be read here."""

    type: str
    text: str = ""


class FunctionCall(msgspec.Struct, frozen=True):
    """A called function, its arguments as a JSON text."""

    name: str
    arguments: str = "{}"


class ToolCall(msgspec.Struct, frozen=True):
    """A call that the assistant made."""

    id: str
    function: FunctionCall
    type: str = "function"


class Message(msgspec.Struct, frozen=True):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        """The content as one text."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.type == "text")
        return self.content or ""


class Function(msgspec.Struct, frozen=True):
    """A function that may be called; its schema is counted, and not read."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw = msgspec.Raw(b"null")


class Tool(msgspec.Struct, frozen=True):
    """A tool of the request; every type but `function` is left alone."""

    type: str
    function: Function | None = None


class StreamOptions(msgspec.Struct, frozen=True):
    """How a stream ends: with usage unless it is declined."""

    include_usage: bool | None = None


TokenLimit = Annotated[int, msgspec.Meta(ge=1)]


class ChatRequest(msgspec.Struct, frozen=True):
    """A request. `model` may be any name: there is one model here, and it answers with its own."""

    messages: Annotated[list[Message], msgspec.Meta(min_length=1, max_length=_MOST_MESSAGES)]
    model: str | None = None
    tools: list[Tool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: TokenLimit | None = None
    max_completion_tokens: TokenLimit | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    seed: int | None = None
    stop: str | Annotated[list[str], msgspec.Meta(max_length=4)] | None = None
    n: Literal[1] | None = None

    @property
    def tool_names(self) -> frozenset[str]:
        """The functions that may be called; none when the client chose `none`."""
        if self.tool_choice == "none":
            return frozenset()
        return frozenset(tool.function.name for tool in self.tools or [] if tool.function)

    @property
    def system(self) -> str:
        """What the client says to the model before the conversation."""
        return "\n\n".join(m.text for m in self.messages if m.role in {"system", "developer"})

    @property
    def rendered(self) -> str:
        """All of it as one text, messages as turns, calls and tools as JSON: the tokens of this are `prompt_tokens`."""
        turns = [
            f"<|im_start|>{message.role}\n{message.text}{_json(message.tool_calls)}<|im_end|>\n"
            for message in self.messages
        ]
        return _json(self.tools) + "".join(turns)

    @property
    def wants_usage(self) -> bool:
        """Whether a stream ends with its usage."""
        return not (self.stream_options and self.stream_options.include_usage is False)


def _json(value: list[ToolCall] | list[Tool] | None) -> str:
    return msgspec.json.encode(value).decode() if value else ""


_decoder: Final = msgspec.json.Decoder(ChatRequest)


def decode(untrusted_body: bytes) -> ChatRequest:
    """The request in a body.

    Raises:
        RequestError: it is no JSON, or not of this shape; the message says where, and quotes nothing of it.

    """
    try:
        return _decoder.decode(untrusted_body)
    except msgspec.ValidationError as error:
        raise RequestError(f"the request is not a chat completion: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RequestError(f"the body is not JSON: {error}") from None
    except RecursionError:
        raise RequestError("the body is not JSON: it is nested too deep") from None
