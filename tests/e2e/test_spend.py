"""Limits of spend in a running box: what is refused, how it is told, and what stands in the audit log and the usage."""

import json
from pathlib import Path
from typing import Any

import pytest

from proto.messages import broker, egress
from tests.e2e.box import Box, running
from tests.egressd import http
from tests.egressd.http import Response
from tests.fakes.upstream import Script, answer, upstream

pytestmark = pytest.mark.e2e

BODY = b'{"model":"m-1","max_tokens":100,"messages":[]}'
RULES = """\
[destinations.up]
base_url = "{url}"
credential = "UP_KEY"
hosted_tools = ["web_search"]

[spend.up]
{limits}
"""


def _used(prompt: int, output: int) -> Script:
    usage = {"prompt_tokens": prompt, "completion_tokens": output}
    body = json.dumps({"model": "m-1", "choices": [], "usage": usage})
    return answer(body.encode(), content_type="application/json")


def _begin(box: Box, url: str, limits: str) -> None:
    box.write("grants.toml", RULES.format(url=url, limits=limits))
    box.open_session(http.SESSION, "up", "key")


def _call(home: Path, body: bytes = BODY, **parts: Any) -> Response:
    return http.post(home, body=body, **parts)


def _decisions(box: Box) -> list[dict[str, Any]]:
    lines = box.ask("owner-broker", broker.Decisions(last=50), broker.DecisionsReply).decisions
    return [line for line in lines if line["kind"] == "decision"]


def test_a_limit_holds_and_a_provider_that_exceeds_is_booked_in_full(home: Path) -> None:
    with (
        upstream(_used(10, 20)) as up,
        running(home, "brokerd", "egressd", environ={"UP_KEY": "sk-up-0123456789"}) as box,
    ):
        _begin(box, up.url, "session_tokens = 400")
        assert _call(home).status == 200
        # It reserves 46 + 400, and only 370 are left.
        refused = _call(home, BODY.replace(b"100", b"400"))
        assert (refused.status, refused.error["code"]) == (403, "spend")
        assert "could pass a spend limit of the destination" in refused.error["message"]
        up.script = _used(10, 340)
        assert _call(home).status == 200
        assert _call(home).status == 403
        assert len(up.requests) == 2
        up.script = answer(b'{"data":[]}', content_type="application/json")
        assert _call(home, path="/up/v1/models", method="GET").status == 200
        rows = box.ask("owner-egress", egress.Usage(), egress.UsageReply).rows
        assert {(row.status, row.calls, row.input_tokens, row.output_tokens) for row in rows} == {
            (200, 2, 20, 360),
            (403, 2, None, None),
        }
        verdicts = [(line["what"], line["verdict"], line["reasons"]) for line in _decisions(box)]
        assert verdicts == [
            ("call", "allow", ["within-ceiling"]),
            ("call", "deny", ["spend"]),
            ("call", "allow", ["within-ceiling"]),
            ("call", "deny", ["spend"]),
            ("read", "allow", ["within-ceiling"]),
        ]
        told = _decisions(box)[1]
        assert (told["model"], told["spending"]["session_tokens"]) == ("m-1", 30 + 46 + 400)
        box.kill("egressd")
        box.start("egressd")
        assert _call(home).error["code"] == "spend"


def test_a_limit_in_dollars_wants_a_price(home: Path) -> None:
    with (
        upstream(_used(10, 20)) as up,
        running(home, "brokerd", "egressd", environ={"UP_KEY": "sk-up-0123456789"}) as box,
    ):
        _begin(box, up.url, "day_usd = 0.001")
        refused = _call(home)
        assert (refused.status, refused.error["code"]) == (403, "unpriced")
        box.write("prices.toml", "[models.m]\ninput = 1\noutput = 5\n")
        assert _call(home).status == 200
        # 200 of output would be the whole 0.001, and something is spent.
        assert _call(home, BODY.replace(b"100", b"200")).error["code"] == "spend"
        cost = box.ask("owner-egress", egress.Cost(), egress.CostReply)
        assert (cost.total_nusd, cost.rows[0].unpriced_models) == (10 * 1000 + 20 * 5000, [])


def test_a_tool_of_the_provider_makes_the_session_untrusted(home: Path) -> None:
    tools = BODY.replace(b'"messages"', b'"web_search_options":{},"messages"')
    with (
        upstream(_used(10, 20)) as up,
        running(home, "brokerd", "egressd", environ={"UP_KEY": "sk-up-0123456789"}) as box,
    ):
        _begin(box, up.url, "day_tokens = 10000")
        box.write("grants.toml", RULES.format(url=up.url, limits="day_tokens = 10000").replace("web_search", "mcp"))
        refused = _call(home, tools)
        assert (refused.status, refused.error["code"]) == (403, "hosted-tool")
        box.write("grants.toml", RULES.format(url=up.url, limits="day_tokens = 10000"))
        (before,) = box.ask("owner-broker", broker.SessionLabels(), broker.SessionLabelsReply).sessions
        assert _call(home, tools).status == 200
        (after,) = box.ask("owner-broker", broker.SessionLabels(), broker.SessionLabelsReply).sessions
        assert (before.untrusted, after.untrusted, after.class_) == (False, True, before.class_)
