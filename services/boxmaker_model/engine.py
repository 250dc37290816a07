"""The one door to llama.cpp: load the weights, count tokens, generate. Called from worker threads, never from the loop.

xllamacpp binds the server of llama.cpp. Generating goes through its functions. Its own HTTP listener cannot be left
out, so it is bound to a Unix socket beside ours and used for the one thing the functions lack: the tokenizer.
"""

import http.client
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from boxmaker_model.prompt import Prompt
from boxmaker_model.weights import find_weights

CONTEXT_TOKENS: Final = 8192
"""What the model was trained for; 190 MB of cache."""
_BATCH_TOKENS: Final = 128
"""Reading a prompt can be stopped after each batch, about every half second on two cores."""
_REPEAT_PENALTY: Final = 1.1
_TOKENIZE_SECONDS: Final = 30


class EngineError(Exception):
    """llama.cpp refused or failed; the message is its own."""


class Ending(msgspec.Struct, frozen=True):
    """How a generation ended (`stop` or `length`), and its tokens."""

    finish: str
    completion_tokens: int


class Engine:
    """A loaded model. `generate` is for one caller at a time; `count` for any."""

    def __init__(self, inner_socket: Path, context_tokens: int = CONTEXT_TOKENS) -> None:
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
        connection = _UnixConnection(self._inner_socket)
        try:
            connection.request("POST", "/tokenize", json.dumps({"content": text, "parse_special": True}))
            response = connection.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise EngineError(f"the tokenizer does not answer: {error}") from None
        finally:
            connection.close()
        if response.status != http.client.OK:
            raise EngineError("the tokenizer refused the text")
        return len(json.loads(body)["tokens"])

    def generate(self, prompt: Prompt, on_text: Callable[[str], None], stopped: Callable[[], bool]) -> Ending:
        """Generate, giving each piece of text as it comes, until the end or until `stopped`.

        Raises:
            EngineError: what llama.cpp answered as an error.

        """
        listener = _Listener(on_text, stopped)
        self._server.handle_chat_completions(json.dumps(_body(prompt)), listener.hear)
        if listener.failure is not None:
            raise EngineError(listener.failure)
        return Ending(listener.finish, listener.completion_tokens)


class _Listener:
    """What llama.cpp's events say. It calls from its own frame: an exception here would be lost, so none may leave."""

    def __init__(self, on_text: Callable[[str], None], stopped: Callable[[], bool]) -> None:
        self._on_text = on_text
        self._stopped = stopped
        self.finish = "stop"
        self.completion_tokens = 0
        self.failure: str | None = None

    def hear(self, untrusted_event: str) -> bool:
        """Take one event; whether to stop."""
        try:
            self._take(json.loads(untrusted_event))
        except Exception as error:  # noqa: BLE001  (raised again by generate, as an EngineError)
            self.failure = f"{type(error).__name__}: {error}"
        return self.failure is not None or self._stopped()

    def _take(self, event: dict[str, Any]) -> None:
        if "error" in event:
            self.failure = str(event["error"].get("message", "llama.cpp failed"))
            return
        if usage := event.get("usage"):
            self.completion_tokens = int(usage["completion_tokens"])
        for choice in event.get("choices", ()):
            if text := choice["delta"].get("content"):
                self._on_text(text)
            self.finish = choice["finish_reason"] or self.finish


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_TOKENIZE_SECONDS)
        self._path = path

    def connect(self) -> None:
        """Connect to the path instead of a host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


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
    parameters.n_threads_http = 1
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
