"""/mcp on a session's own socket, as the programs speak it: the real daemon and the real SDK, a brokerd of the test's.

What Claude Code, Codex, Gemini CLI, Qwen Code, Copilot and Grok send was seen from the programs themselves.
"""

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proto.messages.broker import ToolRequest, ToolsList
from proto.tools import SHOWN
from tests.e2e.box import Box, running
from tests.egressd.http import Response
from tests.egressd.own import SESSION, connect, mcp, opened, request
from tests.fakes.tools_broker import FakeToolsBroker

KINDS = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
MODERN = "2026-07-28"
META = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "2.1.332"},
        "io.modelcontextprotocol/clientCapabilities": {"roots": {"listChanged": True}},
    }
}


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bx") as path:
        yield Path(path)


@pytest.fixture(scope="module")
def box(home: Path) -> Iterator[Box]:
    (home / "grants.toml").write_text('[destinations.up]\nbase_url = "http://127.0.0.1:9"\n')
    (home / "config").mkdir()
    (home / "config" / "egressd.toml").write_text("[session]\nmcp_calls = 2\n")
    with running(home, "egressd") as found:
        yield found


@pytest.fixture
def broker(home: Path) -> Iterator[FakeToolsBroker]:
    with FakeToolsBroker(home) as found:
        yield found
        found.release()


@pytest.fixture
def path(box: Box, broker: FakeToolsBroker) -> Path:
    return opened(box)


def _message(method: str, id: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, **({"params": params} if params else {})}


def _result(response: Response) -> dict[str, Any]:
    assert response.status == 200, response.raw
    assert response.headers["content-type"] == "application/json"
    found: dict[str, Any] = json.loads(response.body)["result"]
    return found


def _hello(version: str) -> dict[str, Any]:
    client = {"name": "gemini-cli-mcp-client", "version": "0.61.0"}
    return _message("initialize", 0, protocolVersion=version, capabilities={}, clientInfo=client)


def _call(tool: str = "recall", id: Any = 2, **arguments: Any) -> dict[str, Any]:
    return _message("tools/call", id, name=tool, arguments=arguments)


def _text(response: Response) -> tuple[str, bool]:
    result = _result(response)
    (content,) = result["content"]
    assert content["type"] == "text"
    return content["text"], result["isError"]


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_the_era_that_begins_with_initialize(path: Path, broker: FakeToolsBroker, version: str) -> None:
    hello = _result(mcp(path, _hello(version)))
    assert (hello["protocolVersion"], hello["serverInfo"]["name"]) == (version, "boxmaker")
    begun = mcp(path, {"jsonrpc": "2.0", "method": "notifications/initialized"}, version=version)
    assert (begun.status, begun.body) == (202, b"")
    # Gemini CLI names no version after it has begun.
    for told in (version, None):
        tools = _result(mcp(path, _message("tools/list"), version=told))["tools"]
        assert {tool["name"]: (tool["description"], tool["inputSchema"]) for tool in tools} == SHOWN
        assert _text(mcp(path, _call(query="launch"), version=told)) == ("done", False)
    assert _result(mcp(path, _message("ping"), version=version)) == {}
    assert _result(mcp(path, _message("prompts/list"), version=version)) == {"prompts": []}
    assert _result(mcp(path, _message("resources/list"), version=version)) == {"resources": []}
    spurious = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99, "reason": "x"}}
    assert mcp(path, spurious, version=version).status == 202
    for method in ("GET", "DELETE"):
        ended = mcp(path, b"", method=method, version=version)
        assert (ended.status, ended.headers["allow"], ended.body) == (405, "POST", b"")


def test_the_era_in_which_each_request_says_all(path: Path, broker: FakeToolsBroker) -> None:
    def ask(method: str, **params: Any) -> Response:
        told = f"{KINDS}Mcp-Method: {method}\r\n" + (f"Mcp-Name: {params['name']}\r\n" if params else "")
        return mcp(path, _message(method, "probe-1", **params, **META), headers=told, version=MODERN)

    found = _result(ask("server/discover"))
    assert found["supportedVersions"] == [MODERN]
    assert set(found["capabilities"]) >= {"tools", "prompts", "resources"}
    tools = _result(ask("tools/list"))["tools"]
    assert [tool["name"] for tool in tools] == ["recall", "memory"]
    assert _text(ask("tools/call", name="recall", arguments={"query": "launch"})) == ("done", False)
    assert _result(ask("prompts/list"))["prompts"] == []


def test_the_session_is_the_sockets_and_each_request_is_a_call_of_its_own(
    box: Box, path: Path, broker: FakeToolsBroker
) -> None:
    other = opened(box, "run-own-2")
    for where in (path, path, other):
        told = f"{KINDS}Mcp-Session-Id: run-own-2\r\n"
        answered = mcp(where, _call("memory", 7, action="note", text="x"), headers=told)
        assert "mcp-session-id" not in answered.headers
        assert _text(answered) == ("done", False)
    calls = [one for one in broker.requests if isinstance(one, ToolRequest)]
    assert [one.session for one in calls] == [SESSION, SESSION, "run-own-2"]
    assert len({one.call for one in calls}) == 3
    assert calls[0].arguments == {"action": "note", "text": "x"}


@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
def test_a_call_goes_on_in_the_trace_that_it_came_with(path: Path, broker: FakeToolsBroker, version: str) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    told = f"{KINDS}traceparent: {trace}\r\nMcp-Method: tools/call\r\nMcp-Name: recall\r\n"
    message = _message("tools/call", name="recall", arguments={"query": "x"}, **META)
    assert _text(mcp(path, message, headers=told, version=version)) == ("done", False)
    assert broker.requests[-1].trace == trace


def test_what_is_refused_is_told_to_the_model(path: Path, broker: FakeToolsBroker) -> None:
    broker.ok, broker.text = False, "refused: x"
    assert _text(mcp(path, _call(query="x"))) == ("refused: x", True)
    broker.requests.clear()
    assert _text(mcp(path, _call("http_fetch", url="https://x.org"))) == (
        "refused: there is no tool of that name",
        True,
    )
    assert not broker.requests
    broker.fault = "session-not-open"
    error = json.loads(mcp(path, _message("tools/list")).body)["error"]
    assert (error["code"], error["message"]) == (-32603, "refused: the session is not open")
    broker.fault, broker.named = None, ["memory", "http_fetch", "unheard-of"]
    assert [tool["name"] for tool in _result(mcp(path, _message("tools/list")))["tools"]] == ["memory"]
    assert isinstance(broker.requests[-1], ToolsList)


HOSTILE: list[tuple[bytes, int, int | None]] = [
    (b"", 400, -32700),
    (b"{", 400, -32700),
    (b"\xff\xfe", 400, -32700),
    (b"[" * 100_000, 400, -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"}x', 400, -32700),
    (b"[]", 400, -32602),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', 400, -32602),
    (b"7", 400, -32602),
    (b"null", 400, -32602),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 400, -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"nothing/such"}', 200, -32601),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', 200, -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}', 200, -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"recall","arguments":[]}}', 200, -32602),
    (b'{"jsonrpc":"2.0","id":1,"result":{}}', 202, None),
    (b" " * (1 << 20) + b"7", 413, None),
]


def test_whatever_is_sent_is_answered(box: Box, path: Path, broker: FakeToolsBroker) -> None:
    for body, status, code in HOSTILE:
        answered = mcp(path, body)
        assert (answered.status, answered.whole) == (status, True), body[:80]
        if code is not None:
            assert json.loads(answered.body)["error"]["code"] == code, body[:80]
    plain = mcp(path, _message("ping"), headers="Content-Type: text/plain\r\nAccept: application/json\r\n")
    assert plain.status == 400
    html = mcp(path, _message("ping"), headers="Content-Type: application/json\r\nAccept: text/html\r\n")
    assert html.status == 406
    strange = mcp(path, _message("ping", **META), version="1999-01-01")
    assert strange.status == 400
    assert _result(mcp(path, _message("ping"))) == {}
    assert "Traceback" not in box.log("egressd")


def test_a_client_that_goes_takes_its_call_along(path: Path, broker: FakeToolsBroker) -> None:
    broker.asks = True
    body = json.dumps(_call(query="x")).encode()
    with connect(path) as client:
        client.sendall(request("/mcp", body, headers=KINDS))
        _until(lambda: len(broker.requests) == 1)
    _until(lambda: broker.left == 1)


def test_one_request_too_many_at_once_is_told_so(path: Path, broker: FakeToolsBroker) -> None:
    broker.asks = True
    answers: list[Response] = []
    waiting = [threading.Thread(target=lambda: answers.append(mcp(path, _call(query="x")))) for _ in range(2)]
    for thread in waiting:
        thread.start()
    _until(lambda: len(broker.requests) == 2)
    assert mcp(path, _message("ping")).status == 503
    broker.release()
    for thread in waiting:
        thread.join(20)
    assert [_text(answer) for answer in answers] == [("done", False)] * 2
    assert mcp(path, _message("ping")).status == 200


def _until(is_so: Any) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)
