"""The one door to llama.cpp: load the weights, count tokens, generate. Called from worker threads, never from the loop.

xllamacpp binds the server of llama.cpp. Its own HTTP listener cannot be left out, so it is bound to a Unix socket
beside ours, and everything goes through it (`inner`): only a closed connection stops a generation that says nothing.
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from boxmaker_model.inner import Answer, InnerError
from boxmaker_model.prompt import Prompt
from boxmaker_model.weights import find_weights

CONTEXT_TOKENS: Final = 8192
"""What the model was trained for; 190 MB of cache."""
_BATCH_TOKENS: Final = 128
"""Reading a prompt can be stopped after each batch, about every half second on two cores."""
_REPEAT_PENALTY: Final = 1.1
_TOKENIZE_SECONDS: Final = 30.0
MOST_SECONDS: Final = 60.0
"""The longest that one generation may take, reading its prompt included; its tokens are bounded by `prompt`."""
_HTTP_THREADS: Final = 4
"""One generates, one may still notice that its client left, the others count."""
_OK: Final = 200


class EngineError(Exception):
    """llama.cpp refused or failed; the message is its own."""


class Ending(msgspec.Struct, frozen=True):
    """How a generation ended (`stop` or `length`), and its tokens."""

    finish: str
    completion_tokens: int


class Engine:
    """A loaded model. `generate` is for one caller at a time; `count` for any."""

    def __init__(
        self, inner_socket: Path, context_tokens: int = CONTEXT_TOKENS, *, most_seconds: float = MOST_SECONDS
    ) -> None:
        """Load; `inner_socket` ends with `.sock` and is replaced: the caller owns its folder.

        Raises:
            ModelAbsent: the packages are not installed.
            EngineError: llama.cpp could not start.

        """
        weights = find_weights()
        inner_socket.unlink(missing_ok=True)
        self._inner_socket = inner_socket
        self.context_tokens = context_tokens
        self._server: Any = _load(weights, inner_socket, context_tokens)

    def close(self) -> None:
        """End llama.cpp's threads and remove its socket."""
        self._server = None
        self.remove_socket()

    def remove_socket(self) -> None:
        """Remove llama.cpp's socket: all that is left to do where the process ends with it."""
        self._inner_socket.unlink(missing_ok=True)

    def count(self, text: str) -> int:
        """The number of the model's tokens in a text.

        Raises:
            EngineError: the tokenizer did not answer.

        """
        body = json.dumps({"content": text, "parse_special": True}).encode()
        end = time.monotonic() + _TOKENIZE_SECONDS
        answer = Answer(self._inner_socket, "/tokenize", body, lambda: time.monotonic() > end)
        try:
            untrusted_body = b"".join(answer.pieces())
            if answer.status == _OK:
                return len(json.loads(untrusted_body)["tokens"])
        except (InnerError, ValueError) as error:
            raise EngineError(f"the tokenizer does not answer: {error}") from None
        raise EngineError("the tokenizer refused the text" if answer.status else "the tokenizer does not answer")

    def generate(self, prompt: Prompt, on_text: Callable[[str], None], stopped: Callable[[], bool]) -> Ending:
        """Generate, giving each piece of text as it comes, until the end, until `stopped`, or for the longest time.

        It returns within a tenth of a second of `stopped`, whatever llama.cpp does; that one drops the work after its
        next token or batch, and begins the next generation then. Out of time is the finish `length`.

        Raises:
            EngineError: what llama.cpp answered as an error.

        """
        end = time.monotonic() + MOST_SECONDS
        listener = _Listener(on_text)
        body = json.dumps(_body(prompt)).encode()
        answer = Answer(self._inner_socket, "/v1/chat/completions", body, lambda: stopped() or time.monotonic() > end)
        try:
            listener.hear_all(answer)
        except InnerError as error:
            raise EngineError(f"llama.cpp does not answer: {error}") from None
        return Ending(listener.finish or "length", listener.completion_tokens)


class _Listener:
    """What the events of one generation say. `finish` stays None when it was not heard to its end."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self.finish: str | None = None
        self.completion_tokens = 0

    def hear_all(self, answer: Answer) -> None:
        """Take every event: one line each, behind its kind; other answers are one error."""
        rest = b""
        for piece in answer.pieces():
            rest += piece
            if answer.status == _OK:
                *lines, rest = rest.split(b"\n")
                for line in lines:
                    self._hear(line.partition(b": ")[2].strip())
        if answer.status not in {0, _OK}:
            self._hear(rest)
            raise EngineError("llama.cpp failed")

    def _hear(self, untrusted_event: bytes) -> None:
        if untrusted_event in {b"", b"[DONE]"}:
            return
        try:
            event = json.loads(untrusted_event)
            failure = str(event["error"].get("message", "llama.cpp failed")) if "error" in event else None
            text = "" if failure else self._take(event)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise EngineError(f"llama.cpp said what is no event: {type(error).__name__}: {error}") from None
        if failure:
            raise EngineError(failure)
        if text:
            self._on_text(text)

    def _take(self, event: dict[str, Any]) -> str:
        """The text of an event; its reason and usage are kept."""
        texts = []
        for choice in event.get("choices", ()):
            if text := choice["delta"].get("content"):
                texts.append(str(text))
                self.completion_tokens += 1
            self.finish = choice["finish_reason"] or self.finish
        if usage := event.get("usage"):
            self.completion_tokens = int(usage["completion_tokens"])
        return "".join(texts)


def _load(weights: Path, inner_socket: Path, context_tokens: int) -> Any:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights)
    parameters.hostnames = [str(inner_socket)]
    parameters.n_ctx = context_tokens
    parameters.n_parallel = 1
    parameters.n_batch = parameters.n_ubatch = _BATCH_TOKENS
    # Without this llama.cpp keeps up to 8 GiB of old prompts.
    parameters.cache_ram_mib = 0
    parameters.warmup = False
    parameters.verbosity = 0
    parameters.n_threads_http = _HTTP_THREADS
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = _threads()
    before = os.umask(0o177)
    try:
        return xllamacpp.Server(parameters)
    except RuntimeError as error:
        raise EngineError(f"llama.cpp did not start: {error}") from None
    finally:
        os.umask(before)


def _threads() -> int:
    """Half of the cores, at most four.

    llama.cpp's threads wait for each other in a spin after every step. With as many threads as cores, one other busy
    process brings it from 60 tokens a second to 2; half of the cores give 50, and 20 beside two busy processes.
    """
    return min(4, max(1, len(os.sched_getaffinity(0)) // 2))


def _body(prompt: Prompt) -> dict[str, Any]:
    body: dict[str, Any] = {
        "messages": [{"role": role, "content": text} for role, text in prompt.messages],
        "max_tokens": prompt.max_tokens,
        "temperature": prompt.temperature,
        "top_p": prompt.top_p,
        "repeat_penalty": 1.0 if prompt.facts else _REPEAT_PENALTY,
        "stop": list(prompt.stop),
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_progress": True,
    }
    return body if prompt.seed is None else {**body, "seed": prompt.seed}
