"""Calls on a session's own socket: refusals in each API's words, what is answered here, what a gateway gets changed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.box import Box
from tests.egressd import own
from tests.egressd.test_authorised import GENERATE, PATHS, SAID, rules
from tests.fakes.egress_broker import FakeBroker
from tests.fakes.upstream import answer, upstream

pytestmark = pytest.mark.measured

Rows = Callable[..., list[Any]]
WHY = "refused: the session's label is above the ceiling of the destination"
TOLD = f"{WHY} (runbook: ceiling)"
REFUSED: dict[str, tuple[int, Any]] = {
    "anthropic": (403, {"type": "error", "error": {"type": "permission_error", "message": TOLD}}),
    "openai-chat": (403, {"error": {"message": TOLD, "type": "permission_error", "code": "ceiling"}}),
    "openai-responses": (400, {"error": {"message": TOLD, "type": "permission_error", "code": "ceiling"}}),
    "gemini": (403, {"error": {"code": 403, "message": TOLD, "status": "PERMISSION_DENIED"}}),
    "code-assist": (403, {"error": {"code": 403, "message": TOLD, "status": "PERMISSION_DENIED"}}),
}


def test_a_refusal_is_told_in_the_words_of_the_api_to_the_byte(
    home: Path, box: Box, broker: FakeBroker, rows: Rows
) -> None:
    broker.deny("ceiling")
    with upstream(answer(b"{}")) as up:
        for api, (path, body) in PATHS.items():
            status, told = REFUSED[api]
            rules(home, base_url=up.url, api=api)
            answered = own.exchange(own.opened(box, f"run-{api}"), own.request(path, body))
            head, _, sent = answered.raw.partition(b"\r\n\r\n")
            assert sent == json.dumps(told, separators=(",", ":")).encode()
            assert head == (
                b"HTTP/1.1 %d \r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close"
                % (status, len(sent))
            )
            assert [(row.status, row.input_tokens) for row in rows(session=f"run-{api}")] == [(status, None)]
        assert up.connections == 0


def test_a_denial_is_never_a_status_at_which_a_client_tries_again(home: Path, box: Box, broker: FakeBroker) -> None:
    with upstream(answer(b"{}")) as up:
        for api, (path, body) in PATHS.items():
            rules(home, base_url=up.url, api=api)
            door = own.opened(box, f"run-{api}")
            for reason in ("spend", "unpriced", "session-not-open", "policy-denies", "hosted-tool", "policy-invalid"):
                broker.deny(reason)
                assert own.exchange(door, own.request(path, body)).status == REFUSED[api][0]
        assert up.connections == 0


def test_what_is_no_route_is_told_in_the_shape_that_its_path_has(home: Path, box: Box, broker: FakeBroker) -> None:
    rules(home, base_url="http://127.0.0.1:9", api=["anthropic", "gemini", "openai-chat"])
    door = own.opened(box)
    missing = {
        path: own.exchange(door, own.request(path, b"{}")) for path in ("/v1/messages/batches", "/v1beta/x", "/x")
    }
    assert {answered.status for answered in missing.values()} == {404}
    assert [answered.error.get("type") or answered.error["status"] for answered in missing.values()] == [
        "not_found_error",
        "NOT_FOUND",
        "not_found_error",
    ]
    assert broker.asked == []


def test_a_websocket_is_told_at_once_that_there_is_none(home: Path, box: Box, broker: FakeBroker) -> None:
    rules(home, base_url="http://127.0.0.1:9", api="openai-responses")
    upgrade = (
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
        "dGhlIHNhbXBsZSBub25jZQ==\r\n"
    )
    answered = own.exchange(own.opened(box), own.request("/v1/responses", method="GET", headers=upgrade))
    assert (answered.status, answered.error["code"], answered.whole) == (426, "websocket", True)
    assert answered.headers["upgrade"] == "HTTP/1.1"
    assert broker.asked == []


def test_a_client_that_asks_whether_somebody_is_there_is_answered_here(
    home: Path, box: Box, broker: FakeBroker, rows: Rows
) -> None:
    rules(home, base_url="http://127.0.0.1:9", api="anthropic")
    door = own.opened(box)
    for method, path in (("HEAD", "/api/hello"), ("GET", "/"), ("HEAD", "/")):
        answered = own.exchange(door, own.request(path, method=method))
        assert (answered.status, answered.body, answered.whole) == (200, b"", True)
    assert (broker.asked, rows()) == ([], [])


def test_a_count_and_a_list_are_asked_about_and_spend_nothing(
    home: Path, box: Box, broker: FakeBroker, rows: Rows
) -> None:
    with upstream(answer(b'{"input_tokens":7}', content_type="application/json")) as up:
        rules(home, base_url=up.url, api=["anthropic", "gemini"])
        door = own.opened(box)
        assert own.exchange(door, own.request("/v1/messages/count_tokens?beta=true", SAID)).status == 200
        assert own.exchange(door, own.request("/v1beta/models/g:countTokens", GENERATE)).status == 200
        assert own.exchange(door, own.request("/v1/models?limit=5", method="GET")).status == 200
        assert [request.split(b" HTTP")[0] for request in up.requests] == [
            b"POST /v1/messages/count_tokens?beta=true",
            b"POST /v1beta/models/g:countTokens",
            b"GET /v1/models?limit=5",
        ]
    assert [(asked.what, asked.spending) for asked in broker.asked] == [("read", None)] * 3
    assert rows() == []


def test_brokerd_is_told_what_a_call_names(home: Path, box: Box, broker: FakeBroker) -> None:
    searched = json.dumps({"contents": [], "tools": [{"googleSearch": {}}]}).encode()
    with upstream(answer(b"{}")) as up:
        rules(home, base_url=up.url, api="gemini", hosted_tools=["web_search"])
        door = own.opened(box)
        assert own.exchange(door, own.request(PATHS["gemini"][0], searched)).status == 200
        (asked,) = broker.asked
        assert (asked.what, asked.model, asked.hosted_tools) == ("call", "gemini-2.5-pro", ["web_search"])
        assert asked.path == "/v1beta/models/gemini-2.5-pro:streamGenerateContent"
        assert up.requests[0].endswith(searched)


def test_a_tool_of_the_provider_is_refused_even_if_brokerd_would_let_it_pass(
    home: Path, box: Box, broker: FakeBroker, rows: Rows
) -> None:
    body = json.dumps({"model": "m", "tools": [{"type": "web_search_20250305"}]}).encode()
    with upstream(answer(b"{}")) as up:
        rules(home, base_url=up.url, api="anthropic")
        refused = own.exchange(own.opened(box), own.request("/v1/messages", body))
        assert up.connections == 0
    assert (refused.status, refused.error["type"]) == (403, "permission_error")
    assert "the request names web_search, which the provider runs" in refused.error["message"]
    assert [row.status for row in rows()] == [403]


def test_what_cannot_be_read_is_refused_before_anybody_is_asked(home: Path, box: Box, broker: FakeBroker) -> None:
    with upstream(answer(b"{}")) as up:
        rules(home, base_url=up.url, api="anthropic")
        door = own.opened(box)
        for body in (b"", b"[]", b'{"tools":[],"tools":[]}', b"x" * (2 << 20)):
            refused = own.exchange(door, own.request("/v1/messages", body))
            assert (refused.status, refused.error["type"]) == (400, "invalid_request_error")
        assert up.connections == 0
    assert broker.asked == []


QUIRKS = ["system-fold", "output-cap", "models-catalog", "function-response-fold"]


def test_a_gateway_gets_what_it_wants_and_another_destination_every_byte(home: Path, box: Box) -> None:
    late = {"role": "system", "content": "env"}
    first = {"role": "user", "content": "hi"}
    said = {"model": "q", "max_tokens": 64_000, "messages": [first, late]}
    body = json.dumps(said).encode()
    with upstream(answer(b'{"data":[]}', content_type="application/json")) as up:
        rules(home, base_url=f"{up.url}/base", api=["openai-chat", "anthropic"], quirks=QUIRKS)
        door = own.opened(box)
        own.exchange(door, own.request("/v1/messages?beta=true", body))
        own.exchange(door, own.request("/v1/messages/count_tokens", body))
        catalog = own.exchange(door, own.request("/muse-code/models?client=1", method="GET"))
        rules(home, base_url=up.url, api=["openai-chat", "anthropic"])
        own.exchange(door, own.request("/v1/messages", body))
        assert own.exchange(door, own.request("/muse-code/models", method="GET")).status == 404
    folded = {"system": "env", "model": "q", "max_tokens": 32_768, "messages": [first]}
    assert [json.loads(request.partition(b"\r\n\r\n")[2]) for request in up.requests[:2]] == [folded, folded]
    assert up.requests[0].startswith(b"POST /base/v1/messages?beta=true HTTP/1.1\r\n")
    assert b"Content-Length: %d\r\n" % len(up.requests[0].partition(b"\r\n\r\n")[2]) in up.requests[0]
    assert up.requests[2].startswith(b"GET /base/v1/models HTTP/1.1\r\n")
    assert (catalog.status, catalog.body) == (200, b'{"data":[]}')
    assert up.requests[3].partition(b"\r\n\r\n")[2] == body


def test_a_large_body_passes_byte_for_byte(home: Path, box: Box) -> None:
    body = json.dumps({"model": "m", "messages": [{"content": "ä" * (3 << 20)}]}, ensure_ascii=False).encode()
    with upstream(answer(b"{}")) as up:
        rules(home, base_url=up.url, api="anthropic")
        assert own.exchange(own.opened(box), own.request("/v1/messages", body)).status == 200
        assert up.requests[0].partition(b"\r\n\r\n")[2] == body


def test_a_count_of_what_the_provider_would_fetch_is_refused_too(home: Path, box: Box, broker: FakeBroker) -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://collector.example/?q=x"}}
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": [image]}]}).encode()
    with upstream(answer(b"{}")) as up:
        rules(home, base_url=up.url, api="anthropic")
        door = own.opened(box)
        refused = own.exchange(door, own.request("/v1/messages/count_tokens", body))
        assert (refused.status, refused.error["type"]) == (403, "permission_error")
        many = json.dumps({"tools": [{"type": f"tool_{number}"} for number in range(100)]}).encode()
        assert own.exchange(door, own.request("/v1/messages", many)).status == 403
        assert up.connections == 0
    assert [(asked.what, len(asked.hosted_tools)) for asked in broker.asked] == [("read", 1), ("call", 50)]


def test_a_compressed_body_is_told_why_it_is_not_relayed(home: Path, box: Box, broker: FakeBroker) -> None:
    rules(home, base_url="http://127.0.0.1:9", api="openai-responses")
    refused = own.exchange(own.opened(box), own.request("/v1/responses", b"x", headers="Content-Encoding: zstd\r\n"))
    assert (refused.status, refused.error["code"]) == (400, "request-invalid")
    assert refused.error["message"] == "the body of the request is compressed; what it names could not be read"
    assert broker.asked == []


def test_a_destination_of_tunnels_alone_relays_nothing(home: Path, box: Box, broker: FakeBroker) -> None:
    rules(home, tunnels=["a.example"], auth=["subscription"])
    refused = own.exchange(own.opened(box, auth="subscription"), own.request("/v1/chat/completions", SAID))
    assert (refused.status, refused.error["code"]) == (404, "route-unknown")
    assert refused.error["message"] == "the destination has tunnels alone; no request is relayed to it"
    rules(home, base_url_from="NO_URL")
    refused = own.exchange(own.opened(box, "run-two"), own.request("/v1/chat/completions", SAID))
    assert (refused.status, refused.error["code"]) == (403, "credential-missing")
    assert refused.error["message"].startswith("the address of the destination, NO_URL, is not set")
