"""Calls on a session's own socket: whose credential leaves, in which header; what never leaves; who is refused."""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proto.faults import Fault
from proto.messages import egress
from tests.e2e.box import Box
from tests.egressd import own
from tests.egressd.conftest import KEY
from tests.fakes.egress_broker import FakeBroker
from tests.fakes.upstream import answer, upstream

pytestmark = pytest.mark.measured

Rows = Callable[..., list[Any]]

OWN = "sk-ant-oat01-of-the-harness-itself"
SAID = json.dumps({"model": "m", "max_tokens": 5, "messages": []}).encode()
GENERATE = json.dumps({"contents": []}).encode()
EVERYTHING = (
    f"Authorization: Bearer {OWN}\r\nX-Api-Key: {OWN}\r\nx-goog-api-key: {OWN}\r\nCookie: a={OWN}\r\n"
    f"Proxy-Authorization: Basic {OWN}\r\nX-Other: y\r\nX-Boxmaker-Session: chat-other\r\nAccept-Encoding: gzip\r\n"
    "OpenAI-Organization: org-1\r\nOpenAI-Project: proj-1\r\nx-goog-user-project: p-1\r\n"
    "anthropic-version: 2023-06-01\r\nanthropic-beta: oauth-2025-04-20\r\nOpenAI-Beta: x\r\n"
    "X-Stainless-Lang: python\r\nx-goog-api-client: gl-node\r\nUser-Agent: cli\r\nContent-Type: application/json\r\n"
)
PATHS = {
    "anthropic": ("/v1/messages?beta=true", SAID),
    "openai-chat": ("/v1/chat/completions", SAID),
    "openai-responses": ("/v1/responses", SAID),
    "gemini": ("/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", GENERATE),
    "code-assist": ("/v1internal:streamGenerateContent?alt=sse", json.dumps({"request": {}}).encode()),
}
OF_API = {
    "anthropic": {"anthropic-version", "anthropic-beta", "x-stainless-lang"},
    "openai-chat": {"openai-beta", "x-stainless-lang"},
    "openai-responses": {"openai-beta", "x-stainless-lang"},
    "gemini": {"x-goog-api-client", "x-stainless-lang"},
    "code-assist": {"x-goog-api-client", "x-stainless-lang"},
}
OF_EVERY_CALL = {"host", "accept-encoding", "content-length", "content-type", "user-agent", "connection"}


def rules(home: Path, **parts: Any) -> None:
    """Write the destination `up` into grants.toml."""
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in parts.items())
    (home / "grants.toml").write_text(f"[destinations.up]\n{lines}")


def headers_of(request: bytes) -> dict[str, str]:
    """The headers of a request that came, by their names in lower case."""
    lines = request.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


PUT = {
    "anthropic": {"x-api-key": KEY},
    "openai-chat": {"authorization": f"Bearer {KEY}"},
    "openai-responses": {"authorization": f"Bearer {KEY}"},
    "gemini": {"x-goog-api-key": KEY},
    "code-assist": {"authorization": f"Bearer {KEY}"},
}
PASSED = {
    "anthropic": {"authorization", "x-api-key"},
    "openai-chat": {"authorization"},
    "openai-responses": {"authorization"},
    "gemini": {"authorization", "x-goog-api-key"},
    "code-assist": {"authorization"},
}
_OF_OPENAI = {"openai-organization", "openai-project"}
BILLED = {
    "anthropic": set[str](),
    "openai-chat": _OF_OPENAI,
    "openai-responses": _OF_OPENAI,
    "gemini": {"x-goog-user-project"},
    "code-assist": {"x-goog-user-project"},
}


def test_whose_credential_leaves(home: Path, box: Box, rows: Rows) -> None:
    with upstream(answer(b"{}", content_type="application/json")) as up:
        for api, (path, body) in PATHS.items():
            rules(home, base_url=up.url, api=api, credential="UP_KEY", auth=["key", "subscription", "none"])
            sent = {}
            for auth in ("key", "subscription", "none"):
                door = own.opened(box, f"run-{auth}", auth=auth, harness=None)
                assert own.exchange(door, own.request(path, body, headers=EVERYTHING)).status == 200
                assert up.requests[-1].startswith(f"POST {path} HTTP/1.1\r\n".encode())
                assert up.requests[-1].endswith(body)
                sent[auth] = headers_of(up.requests[-1])
            plain = OF_EVERY_CALL | OF_API[api]
            assert set(sent["none"]) == plain
            assert set(sent["key"]) == plain | set(PUT[api])
            assert {name: sent["key"][name] for name in PUT[api]} == PUT[api]
            assert set(sent["subscription"]) == plain | PASSED[api] | BILLED[api]
            assert all(OWN in sent["subscription"][name] for name in PASSED[api])
    assert {row.billing for row in rows(session="run-key")} == {"metered"}
    assert {row.billing for row in rows(session="run-subscription")} == {"plan"}


def test_a_gateway_has_its_key_from_the_file_and_its_address_from_a_variable(home: Path, box: Box) -> None:
    with upstream(answer(b"{}", content_type="application/json")) as up:
        rules(home, base_url="http://127.0.0.1:9", base_url_from="GATE_URL", credential="GATE_KEY", auth=["gateway"])
        door = own.opened(box, auth="gateway", harness="codex")
        call = own.request("/v1/chat/completions", SAID)
        refused = own.exchange(door, call)
        assert (refused.status, refused.error["code"]) == (403, "credential-missing")
        assert refused.error["message"] == (
            f"GATE_KEY is not set and {home}/local/.virtual-key holds no key of the gateway (runbook: credential-missing)"
        )
        (home / "credentials.env").touch(mode=0o600)
        (home / "credentials.env").write_text(f"GATE_URL={up.url}/gate\n")
        (home / "local").mkdir()
        file = home / "local" / ".virtual-key"
        file.write_text("sk-virtual-1\n")
        file.chmod(0o644)
        assert "make it 0600" in own.exchange(door, call).error["message"]
        file.chmod(0o600)
        assert own.exchange(door, call).status == 200
        assert up.requests[-1].startswith(b"POST /gate/v1/chat/completions ")
        assert headers_of(up.requests[-1])["authorization"] == "Bearer sk-virtual-1"
        file.write_text("sk-virtual-22\n")
        os.utime(file, ns=(1, 1))
        assert own.exchange(door, call).status == 200
        assert headers_of(up.requests[-1])["authorization"] == "Bearer sk-virtual-22"
        (home / "credentials.env").write_text(f"GATE_URL={up.url}/other\nGATE_KEY=sk-of-the-variable\n")
        assert own.exchange(door, call).status == 200
        assert up.requests[-1].startswith(b"POST /other/v1/chat/completions ")
        assert headers_of(up.requests[-1])["authorization"] == "Bearer sk-of-the-variable"
        (home / "credentials.env").write_text("GATE_URL=ftp://x\nGATE_KEY=sk-of-the-variable\n")
        refused = own.exchange(door, call)
        assert (refused.status, refused.error["code"]) == (403, "rules-invalid")
        assert "line 3: destinations.up.base_url_from: its value is not https://HOST" in refused.error["message"]


UNSUPPORTED = [
    ("opencode", "anthropic", "subscription", "Anthropic prohibits third-party clients"),
    ("pi", "anthropic", "subscription", "Anthropic prohibits third-party clients"),
    ("pi", "other", "subscription", "pi has no login that can be carried"),
    ("copilot", "other", "key", "it has no key mode"),
    ("copilot", "other", "gateway", "it has no base-URL override"),
    ("qwen", "other", "subscription", "its free tier ended in April 2026"),
    ("codex", "github-copilot", "subscription", "GitHub refuses clients that it does not recognise"),
    ("claude", "keyed", "subscription", "calls to keyed are authorised by key, not by subscription"),
]


def test_pairs_that_are_not_supported_are_refused_with_the_reason(home: Path, box: Box) -> None:
    ways = '["subscription", "key", "gateway"]'
    (home / "grants.toml").write_text(
        "".join(
            f'[destinations.{name}]\nbase_url = "https://x.example"\ncredential = "UP_KEY"\nauth = {auth}\n'
            for name, auth in (("anthropic", ways), ("other", ways), ("github-copilot", ways), ("keyed", '["key"]'))
        )
    )
    for harness, destination, auth, reason in UNSUPPORTED:
        with pytest.raises(Fault, match=reason) as raised:
            own.opened(box, f"run-{harness}-{auth}", destination=destination, auth=auth, harness=harness)
        assert raised.value.code == "auth-unsupported"
        assert raised.value.message.startswith("refused: ")
    own.opened(box, "run-fine", destination="anthropic", auth="subscription", harness="claude")


def test_an_owner_who_takes_a_way_back_is_obeyed_at_the_next_call(home: Path, box: Box, broker: FakeBroker) -> None:
    with upstream(answer(b"{}")) as up:
        rules(home, base_url=up.url, auth=["subscription"])
        door = own.opened(box, auth="subscription")
        rules(home, base_url=up.url, credential="UP_KEY", auth=["key"])
        refused = own.exchange(door, own.request("/v1/chat/completions", SAID))
        assert (refused.status, refused.error["code"]) == (403, "auth-unsupported")
        assert up.connections == 0
    assert broker.asked == []


def test_a_key_in_a_url_is_refused(home: Path, box: Box) -> None:
    with upstream(answer(b"{}")) as up:
        rules(home, base_url=up.url, api="gemini", credential="UP_KEY")
        door = own.opened(box, auth="key")
        for query in ("?key=AIza", "?alt=sse&key=AIza", "?Access_Token=x", "?api_key=x", "?%6bey=AIza", "?a;key=x"):
            refused = own.exchange(door, own.request(f"/v1beta/models/g:generateContent{query}", GENERATE))
            assert (refused.status, refused.error["status"]) == (400, "INVALID_ARGUMENT")
        assert up.connections == 0


def test_a_login_that_passes_is_nowhere_but_at_both_ends(home: Path, box: Box, rows: Rows) -> None:
    body = json.dumps({"type": "error", "error": {"message": f"bad token {OWN}"}}).encode()
    with upstream(answer(body, status="401 Unauthorized", content_type="application/json")) as up:
        rules(home, base_url=up.url, api="anthropic", auth=["subscription"])
        door = own.opened(box, auth="subscription")
        call = own.request("/v1/messages", SAID, headers=f"Authorization: Bearer {OWN}\r\n")
        assert own.exchange(door, call).body == body
        up.script = answer(gzip.compress(body), headers="Content-Encoding: gzip\r\n")
        assert gzip.decompress(own.exchange(door, call).body) == body
        assert all(OWN.encode() in request for request in up.requests)
    kept = [path for path in home.rglob("*") if path.is_file() and OWN.encode() in path.read_bytes()]
    assert kept == []
    assert OWN not in box.log("egressd") + repr(rows())


def test_a_key_that_egressd_holds_is_kept_nowhere(home: Path, box: Box) -> None:
    body = json.dumps({"id": "x", "content": f"your key is {KEY}"}).encode()
    with upstream(answer(body, headers=f"X-Echo: {KEY}\r\n", content_type="application/json")) as up:
        rules(home, base_url=up.url, api="anthropic", credential="UP_KEY")
        answered = own.exchange(own.opened(box, auth="key"), own.request("/v1/messages", SAID))
        assert KEY.encode() in up.requests[0]
    assert answered.body == body.replace(KEY.encode(), b"*" * len(KEY))
    assert KEY.encode() not in answered.raw
    assert [path for path in home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()] == []


def test_a_destination_is_ready_when_it_has_what_it_needs(home: Path, box: Box) -> None:
    (home / "grants.toml").write_text(
        '[destinations.a]\nbase_url = "https://a.example"\ncredential = "UP_KEY"\n'
        '[destinations.b]\nbase_url = "https://a.example"\ncredential = "NO_KEY"\n'
        '[destinations.c]\ntunnels = ["a.example"]\nauth = ["subscription"]\n'
        '[destinations.d]\nbase_url_from = "NO_URL"\n'
        '[destinations.e]\nbase_url = "https://a.example"\nauth = ["gateway"]\n'
        '[destinations.f]\nbase_url = "https://a.example"\nauth = ["key", "subscription"]\ncredential = "NO_KEY"\n'
    )
    told = box.ask("owner-egress", egress.Destinations(), egress.DestinationsReply)
    ready = {one.destination: one.ready for one in told.destinations}
    assert ready == {"a": True, "b": False, "c": True, "d": False, "e": False, "f": True}


def test_a_key_that_a_program_names_a_model_by_is_written_down_nowhere(
    home: Path, box: Box, broker: FakeBroker, rows: Rows
) -> None:
    body = json.dumps({"model": KEY, "messages": [], "tools": [{"type": KEY}]}).encode()
    with upstream(answer(b"{}")) as up:
        rules(home, base_url=up.url, credential="UP_KEY", auth=["key"])
        refused = own.exchange(own.opened(box, auth="key"), own.request("/v1/chat/completions", body))
        assert (refused.status, refused.error["code"]) == (403, "hosted-tool")
    masked = "*" * len(KEY)
    assert KEY not in refused.body.decode()
    assert [(asked.model, asked.hosted_tools) for asked in broker.asked] == [(masked, [masked])]
    assert [row.model for row in rows()] == [masked]
    assert KEY not in box.log("egressd")
