"""LiteLLM's proxy as the gateway: what egressd changes for it is what lets each API's call through, and nothing else does.

Behind it is a server of chat completions that is as strict as the chat templates of open models: one system message,
at the beginning; the results of tools directly behind the message that called them.
"""

import itertools
import json
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import pytest

from proto.messages.egress import Usage, UsageReply
from tests.e2e.box import Box, running
from tests.egressd import own
from tests.egressd.http import Response
from tests.fakes.egress_broker import FakeBroker
from tests.peers import litellm

pytestmark = [pytest.mark.peers, pytest.mark.timeout(240)]

MODEL: Final = "strict-1"
QUIRKS: Final = ["system-fold", "output-cap", "models-catalog", "function-response-fold"]


def _wrong(body: dict[str, Any]) -> str | None:
    """What a strict chat template says against a request."""
    roles = [message["role"] for message in body.get("messages", [])]
    if "system" in roles[1:]:
        return "System message must be at the beginning"
    for before, role in itertools.pairwise(roles):
        if role == "tool" and before not in ("assistant", "tool"):
            return "a tool's result stands behind something else than its call"
    limits = [body.get(name) or 0 for name in ("max_tokens", "max_completion_tokens", "max_output_tokens")]
    return "max_tokens is too large" if max(limits) > 100_000 else None


CHAT: Final = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": MODEL,
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "pong"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14},
}
RESPONSE: Final = {
    "id": "r",
    "object": "response",
    "created_at": 1,
    "model": MODEL,
    "status": "completed",
    "output": [
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "pong", "annotations": []}],
        }
    ],
    "usage": {"input_tokens": 11, "output_tokens": 3, "total_tokens": 14},
}


class _Strict(BaseHTTPRequestHandler):
    """Chat completions and Responses, not streamed."""

    seen: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.seen.append(body)
        wrong = _wrong(body)
        answer = RESPONSE if self.path.endswith("/responses") else CHAT
        error = {"error": {"message": wrong, "type": "invalid_request_error"}}
        told = json.dumps(error if wrong else answer).encode()
        self.send_response(400 if wrong else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


class Gateway(NamedTuple):
    """A box whose destination is the proxy; `seen` is what the model's server was asked."""

    home: Path
    box: Box
    seen: list[dict[str, Any]]

    def call(self, path: str, body: Any, quirks: list[str]) -> Response:
        """A call of a session at the proxy with some quirks."""
        text = (self.home / "base.toml").read_text()
        (self.home / "grants.toml").write_text(f"{text}quirks = {json.dumps(quirks)}\n")
        door = own.opened(self.box, auth="gateway", harness=None)
        headers = "Content-Type: application/json\r\nanthropic-version: 2023-06-01\r\n"
        return own.exchange(door, own.request(path, json.dumps(body).encode(), headers=headers))


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    if not litellm.PROGRAM.exists():
        pytest.skip("make e2e-egress makes the environment of LiteLLM")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Strict)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    upstream = f"http://127.0.0.1:{server.server_port}/v1"
    with (
        tempfile.TemporaryDirectory(prefix="bx") as folder,
        litellm.running(Path(folder), upstream, [MODEL], "hosted_vllm") as proxy,
    ):
        home = Path(folder) / "h"
        home.mkdir()
        (home / "base.toml").write_text(
            f'[destinations.up]\nbase_url = "http://127.0.0.1:{proxy.port}"\nauth = ["gateway"]\n'
            'credential = "GATE_KEY"\napi = ["openai-chat", "openai-responses", "anthropic", "gemini"]\n'
        )
        broker = FakeBroker(home)
        with running(home, "egressd", environ={"GATE_KEY": proxy.key}) as box:
            yield Gateway(home, box, _Strict.seen)
        broker.stop()
    server.shutdown()
    server.server_close()


LATE: Final = {
    "model": MODEL,
    "max_tokens": 64_000,
    "system": [{"type": "text", "text": "be brief"}],
    "messages": [{"role": "user", "content": "ping"}, {"role": "system", "content": "env: linux"}],
}
TOOLS: Final = {
    "contents": [
        {"role": "user", "parts": [{"text": "ping"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "t0", "args": {}}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "t0", "response": {"output": "x"}}}, {"text": "and now?"}],
        },
    ]
}
FUNCTION: Final = {
    "contents": [
        *TOOLS["contents"][:2],
        {"role": "function", "parts": [{"functionResponse": {"name": "t0", "response": {"output": "x"}}}]},
    ]
}
GENERATE: Final = f"/v1beta/models/{MODEL}:generateContent"


def test_a_late_system_message_reaches_the_model_as_its_system(gateway: Gateway) -> None:
    gateway.call("/v1/messages?beta=true", LATE, [])
    # Of its versions some pass it on as a late system message, 1.108 makes it a user's.
    assert "env: linux" not in json.dumps(gateway.seen[-1]["messages"][0])
    answered = gateway.call("/v1/messages?beta=true", LATE, QUIRKS)
    assert answered.status == 200, answered.body
    assert json.loads(answered.body)["content"][0]["text"] == "pong"
    (first, *_) = gateway.seen[-1]["messages"]
    assert "be brief" in json.dumps(first)
    assert "env: linux" in json.dumps(first)


def test_results_of_tools_reach_the_model_behind_their_calls(gateway: Gateway) -> None:
    assert gateway.call(GENERATE, TOOLS, []).status != 200
    for body, roles in ((TOOLS, ["user", "assistant", "tool", "user"]), (FUNCTION, ["user", "assistant", "tool"])):
        answered = gateway.call(GENERATE, body, QUIRKS)
        assert answered.status == 200, answered.body
        assert json.loads(answered.body)["candidates"][0]["content"]["parts"][0]["text"] == "pong"
        assert [message["role"] for message in gateway.seen[-1]["messages"]] == roles


def test_the_output_that_is_asked_for_is_capped(gateway: Gateway) -> None:
    for path, field in (("/v1/chat/completions", "max_tokens"), ("/v1/responses", "max_output_tokens")):
        body = {"model": MODEL, field: 131_072, "input": "ping", "messages": [{"role": "user", "content": "ping"}]}
        body.pop("messages" if path == "/v1/responses" else "input")
        assert gateway.call(path, body, []).status in (400, 500)
        answered = gateway.call(path, body, QUIRKS)
        assert answered.status == 200, answered.body
        assert "pong" in answered.body.decode()


def test_the_catalog_of_muse_is_the_gateways_list(gateway: Gateway) -> None:
    gateway.call("/v1/messages", LATE, QUIRKS)
    door = own.opened(gateway.box, auth="gateway", harness=None)
    answered = own.exchange(door, own.request("/muse-code/models", method="GET"))
    assert [one["id"] for one in json.loads(answered.body)["data"]] == [MODEL]


def test_every_call_is_metered_and_billed_to_the_gateway(gateway: Gateway) -> None:
    reply: UsageReply = gateway.box.ask("owner-egress", Usage(), UsageReply)
    good = [row for row in reply.rows if row.status == 200]
    assert good
    assert {row.billing for row in good} == {"metered"}
    assert sum(row.input_tokens or 0 for row in good) == 11 * sum(row.calls for row in good)
