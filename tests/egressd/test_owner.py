"""The owner's questions over his socket: cost, the models of a destination, a harness's own count beside the egress's."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from proto.faults import Fault
from proto.messages import egress
from proto.messages.wire import Ok
from tests.e2e.box import Box
from tests.egressd import http
from tests.egressd.conftest import KEY
from tests.fakes.egress_broker import FakeBroker
from tests.fakes.upstream import USAGE, answer, upstream

pytestmark = pytest.mark.measured

Destination = Callable[..., None]
PRICES = "[models.scripted]\ninput = 1.0\noutput = 10\ncache_read = 0.5\n\n[models.other]\ninput = 3\noutput = 4\n"


def _models(box: Box, destination: str | None = None) -> egress.ModelsReply:
    found: egress.ModelsReply = box.ask("owner-egress", egress.Models(destination=destination), egress.ModelsReply)
    return found


def test_a_call_on_a_key_costs_what_its_model_costs(home: Path, box: Box, destination: Destination) -> None:
    (home / "prices.toml").write_text(PRICES)
    with upstream(answer(USAGE)) as up:
        destination(up.url, credential="UP_KEY")
        assert http.post(home).status == 200
        destination(up.url)
        assert http.post(home).status == 200
    reply = box.ask("owner-egress", egress.Cost(session=http.SESSION), egress.CostReply)
    # 11 in, 5 of them from the cache, and 7 out.
    assert reply.rows == [
        egress.CostRow(
            session=http.SESSION, calls=2, nusd=6 * 1000 + 5 * 500 + 7 * 10_000, metered_tokens=18, unpriced_models=[],
            unpriced_tokens=0, plan_tokens=18, harness_tokens=0,
        )
    ]  # fmt: skip
    assert (reply.total_nusd, reply.problem) == (78_500, None)
    (home / "prices.toml").write_text("[models.scripted]\ninput = x\n")
    again = box.ask("owner-egress", egress.Cost(), egress.CostReply)
    assert (again.rows, again.total_nusd) == (reply.rows, 78_500)
    assert "prices.toml: not TOML" in again.problem


def test_a_harness_is_kept_beside_and_not_added(home: Path, box: Box, destination: Destination) -> None:
    told: dict[str, Any] = dict.fromkeys(
        ("output_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "reasoning_tokens")
    )
    for tokens in (5, 1000):
        report = egress.HarnessUsage(
            session="run-1", call="r1", destination="chatgpt", model="m", input_tokens=tokens, **told
        )
        assert box.ask("launcher-egress", report, Ok) == Ok()
    reply = box.ask("owner-egress", egress.Usage(session="run-1"), egress.UsageReply)
    (row,) = reply.rows
    assert (row.source, row.billing, row.input_tokens, row.output_tokens) == ("harness", "plan", 1000, None)
    (cost,) = box.ask("owner-egress", egress.Cost(), egress.CostReply).rows
    assert (cost.calls, cost.harness_tokens, cost.plan_tokens, cost.nusd) == (0, 1000, 0, 0)


def test_models_are_those_used_and_those_priced(home: Path, box: Box, destination: Destination) -> None:
    (home / "prices.toml").write_text(f'source = "mine"\n{PRICES}')
    with upstream(answer(USAGE)) as up:
        destination(up.url)
        assert http.post(home).status == 200
    found = _models(box)
    assert [(row.destination, row.model, row.priced_as, row.input, row.cache_read) for row in found.models] == [
        ("up", "scripted-1", "scripted", "1.0", "0.5"),
        (None, "other", "other", "3", None),
        (None, "scripted", "scripted", "1.0", "0.5"),
    ]
    assert (found.source, found.problem) == ("mine", None)


LISTS = {
    "openai-chat": ("/v1/models", {"data": [{"id": "b-1"}, {"id": "a-1", "x": 1}, {"id": "a-1"}, {"id": "\x1b[2J"}]}),
    "anthropic": ("/v1/models?limit=1000", {"data": [{"id": "a-1"}, {"id": "b-1"}], "has_more": False}),
    "gemini": ("/v1beta/models?pageSize=1000", {"models": [{"name": "models/b-1"}, {"name": "models/a-1"}]}),
}
HEADERS = {
    "openai-chat": f"authorization: bearer {KEY}",
    "anthropic": f"x-api-key: {KEY}",
    "gemini": f"x-goog-api-key: {KEY}",
}


@pytest.mark.parametrize("api", LISTS)
def test_a_destination_is_asked_for_its_own_list(home: Path, box: Box, broker: FakeBroker, api: str) -> None:
    target, listed = LISTS[api]
    with upstream(answer(json.dumps(listed).encode(), content_type="application/json")) as up:
        rule = f'base_url = "{up.url}/base"\napi = "{api}"\ncredential = "UP_KEY"\n'
        (home / "grants.toml").write_text(f"[destinations.up]\n{rule}")
        found = _models(box, "up")
        (request,) = up.requests
    head = request.decode().lower()
    assert head.startswith(f"get /base{target.lower()} http/1.1\r\n")
    assert HEADERS[api] in head.split("\r\n")
    assert ("anthropic-version: 2023-06-01" in head) is (api == "anthropic")
    assert [row.model for row in found.models] == ["a-1", "b-1"]
    # Nothing of any session leaves: the owner asks.
    assert broker.asked == []
    assert box.ask("owner-egress", egress.Usage(), egress.UsageReply).rows == []


BAD = [
    (answer(b'{"error":"no"}', status="401 Unauthorized"), "up answered with the status 401"),
    (answer(b"[]"), "no list of models"),
    (answer(b'{"data":[{"name":"x"}]}'), "no list of models"),
    (answer(b'{"data":null}'), "no list of models"),
    (answer(b"\xff"), "no list of models"),
    (lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"), "no whole answer"),
    (lambda connection: connection.sendall(b"nonsense\r\n\r\n"), "no whole answer"),
    (lambda connection: connection.sendall(b""), "no whole answer"),
]


def test_a_list_that_is_none_is_told_and_the_next_is_asked(home: Path, box: Box, destination: Destination) -> None:
    with upstream(answer(b"")) as up:
        destination(up.url)
        for script, says in BAD:
            up.script = script
            with pytest.raises(Fault) as caught:
                _models(box, "up")
            assert caught.value.code == "upstream-unreachable"
            assert says in caught.value.message
        up.script = answer(b'{"data":[{"id":"m"}]}')
        assert [row.model for row in _models(box, "up").models] == ["m"]
    for place, code in (("nowhere", "destination-unknown"), ("login", "route-unknown")):
        rule = '[destinations.login]\nbase_url = "https://a.example"\nauth = ["subscription"]\n'
        (home / "grants.toml").write_text(rule)
        with pytest.raises(Fault) as caught:
            _models(box, place)
        assert caught.value.code == code
