"""A scripted model: OpenAI chat completions over a Unix socket or loopback, from a script instead of a mind.

Features, each a key of a reply (all optional):

    text            the words of the answer
    reasoning       sent before them as `reasoning_content`
    calls           tool calls: {"name", "arguments": a map, or a raw text, "id"}
    when            the reply is kept for a request whose last message holds this text, and may be used again and again;
                    replies without it are taken in their order, once
    finish          the finish_reason; by default `tool_calls` with calls, else `stop`
    usage           [prompt tokens, completion tokens], or null for none
    chunk           characters per chunk (default 8); `raw_cut` cuts the bytes of the stream into pieces of that size
    stream          false: one JSON body, whatever was asked
    status, error   an HTTP error with that OpenAI error map (or text)
    cut             after so many events the connection is closed
    no_done         the stream ends without `[DONE]`
    raw             this text as the body of the answer, as it is, with the content type `type`
    delay_s         wait so long before the answer; `gap_s` between two events
    hold            wait before the answer until `FakeModel.release` is called; `hold_at` before the event of that number
    silent          read the request and answer nothing until the client goes

Every request is kept: `path`, `headers`, and `body` byte for byte. When the script is at its end, `otherwise` answers.

Run by itself: `python -m tests.fakes.model --socket PATH --script FILE.json [--record FILE]`; the script is a list of
replies, and each request body is appended to the record file as one line.
"""

import argparse
import contextlib
import json
import os
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple, Self

Reply = dict[str, Any]
OTHERWISE: Reply = {"text": "The script is at its end."}


class Recorded(NamedTuple):
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body's value."""
        return json.loads(self.body)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages of the prompt."""
        found: list[dict[str, Any]] = self.json["messages"]
        return found


def calls(name: str, **arguments: Any) -> Reply:
    """A reply that is one call of a tool of the model's."""
    return {"calls": [{"name": name, "arguments": arguments}]}


class FakeModel:
    """The model; it listens inside `with`. `path` None is a port on loopback, whose address is `url`."""

    def __init__(
        self, script: list[Reply] | None = None, path: Path | None = None, otherwise: Reply = OTHERWISE
    ) -> None:
        self.script = list(script or [])
        self.otherwise = otherwise
        self.requests: list[Recorded] = []
        self.on_request: threading.Event = threading.Event()
        self._path = path
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._server: Any = None

    @property
    def url(self) -> str:
        """The base_url of a destination that leads here."""
        if self._path is not None:
            return f"unix:{self._path}"
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"model": self})
        if self._path is None:
            self._server = _Tcp(("127.0.0.1", 0), handler)
        else:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.unlink(missing_ok=True)
            self._server = _Unix(str(self._path), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def system(self) -> str:
        """The system message of the last prompt."""
        return str(self.requests[-1].messages[0]["content"])

    @property
    def results(self) -> list[str]:
        """The tool results in the last prompt."""
        return [message["content"] for message in self.requests[-1].messages if message["role"] == "tool"]

    def release(self) -> None:
        """Let the replies that are held go on, those to come too."""
        self._released.set()

    def hold_again(self) -> None:
        """Those to come are held again."""
        self._released.clear()

    def wait_for(self, count: int, timeout_s: float = 10.0) -> None:
        """Wait until so many requests have come."""
        deadline = time.monotonic() + timeout_s
        while len(self.requests) < count:
            assert time.monotonic() < deadline, f"{len(self.requests)} of {count} requests came"
            self.on_request.wait(0.05)

    def take(self, request: Recorded) -> Reply:
        """Keep a request and choose its reply."""
        last = str(request.messages[-1].get("content"))
        with self._lock:
            self.requests.append(request)
            self.on_request.set()
            for reply in self.script:
                if "when" in reply and reply["when"] in last:
                    return reply
            for number, reply in enumerate(self.script):
                if "when" not in reply:
                    return self.script.pop(number)
            return self.otherwise

    def wait_released(self) -> None:
        """Wait for `release`."""
        self._released.wait(30)


class _Tcp(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


class _Unix(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: FakeModel

    def address_string(self) -> str:
        return "client"

    def log_message(self, *_: object) -> None:
        """Nothing: a test reads `requests`."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        reply = self.model.take(
            Recorded(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        )
        self.close_connection = True
        with contextlib.suppress(ConnectionError):
            self._answer(reply)

    def _answer(self, reply: Reply) -> None:
        time.sleep(reply.get("delay_s", 0))
        if reply.get("hold"):
            self.model.wait_released()
        if reply.get("silent"):
            self.connection.settimeout(30)
            self.connection.recv(1)
        elif "status" in reply:
            error = reply.get("error", {"message": "scripted"})
            body = error if isinstance(error, str) else json.dumps({"error": error})
            self._whole(reply["status"], "application/json", body.encode())
        elif "raw" in reply:
            self._whole(200, reply.get("type", "text/event-stream"), reply["raw"].encode())
        elif reply.get("stream") is False:
            self._whole(200, "application/json", json.dumps(completion(reply)).encode())
        else:
            self._stream(reply)

    def _whole(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, reply: Reply) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, event in enumerate(events(reply)):
            if number == reply.get("hold_at"):
                self.model.wait_released()
            if number == reply.get("cut"):
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            size = reply.get("raw_cut", len(event))
            for begin in range(0, len(event), size):
                piece = event[begin : begin + size]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
            time.sleep(reply.get("gap_s", 0))
        self.wfile.write(b"0\r\n\r\n")


def events(reply: Reply) -> Iterator[bytes]:
    """The events of a streamed reply, as bytes."""
    size = reply.get("chunk", 8)
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"reasoning_content": piece} for piece in _pieces(reply.get("reasoning", ""), size)]
    deltas += [{"content": piece} for piece in _pieces(reply.get("text", ""), size)]
    for index, call in enumerate(_calls(reply)):
        function = call["function"]
        head = {"index": index, "id": call["id"], "type": "function", "function": {"name": function["name"]}}
        deltas.append({"tool_calls": [head]})
        for piece in _pieces(function["arguments"], size):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    for delta in deltas:
        yield _event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    yield _event({"choices": [{"index": 0, "delta": {}, "finish_reason": _finish(reply)}]})
    if (usage := _usage(reply)) is not None:
        yield _event({"choices": [], "usage": usage})
    if not reply.get("no_done"):
        yield b"data: [DONE]\n\n"


def completion(reply: Reply) -> dict[str, Any]:
    """The reply as one completion that is not streamed."""
    message = {"role": "assistant", "content": reply.get("text"), "tool_calls": _calls(reply) or None}
    choice = {"index": 0, "message": message, "finish_reason": _finish(reply)}
    return {"object": "chat.completion", "choices": [choice], "usage": _usage(reply)}


def _calls(reply: Reply) -> list[dict[str, Any]]:
    made = []
    for number, call in enumerate(reply.get("calls", [])):
        arguments = call.get("arguments", {})
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call_id = call.get("id", f"call_{number}")
        made.append({"id": call_id, "type": "function", "function": {"name": call["name"], "arguments": text}})
    return made


def _finish(reply: Reply) -> str:
    return str(reply.get("finish", "tool_calls" if reply.get("calls") else "stop"))


def _usage(reply: Reply) -> dict[str, int] | None:
    given = reply.get("usage", [10, 5])
    return None if given is None else {"prompt_tokens": given[0], "completion_tokens": given[1]}


def _pieces(text: str, size: int) -> list[str]:
    return [text[begin : begin + size] for begin in range(0, len(text), size)]


def _event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps({"object": "chat.completion.chunk", **chunk}).encode() + b"\n\n"


def main() -> None:
    """Serve a script until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--record", type=Path, default=Path(os.devnull))
    arguments = parser.parse_args()
    with FakeModel(json.loads(arguments.script.read_text()), arguments.socket) as model:
        written = 0
        while True:
            model.wait_for(written + 1, timeout_s=float("inf"))
            with arguments.record.open("ab") as file:
                file.write(model.requests[written].body + b"\n")
            written += 1


if __name__ == "__main__":
    main()
