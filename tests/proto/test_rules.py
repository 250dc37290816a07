"""The owner's rules, as brokerd and egressd read them alike."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.faults import Fault
from proto.role.config import parse
from proto.rules import Destination, Rules, Spend


def test_an_entry_of_a_tunnel_is_a_host_and_a_port() -> None:
    rule = Destination(tunnels=["api.github.com", "gateway.example:8443"])
    assert rule.names_tunnel("api.github.com", 443)
    assert rule.names_tunnel("gateway.example", 8443)
    assert not rule.names_tunnel("api.github.com", 8443)
    assert not rule.names_tunnel("gateway.example", 443)
    assert not rule.names_tunnel("github.com", 443)
    assert not rule.names_tunnel("x.api.github.com", 443)


@given(st.floats(0, 1e9))
def test_dollars_are_nano_dollars_of_the_number_as_it_is_written(usd: float) -> None:
    spend = Spend(session_usd=usd)
    assert spend.session_nusd == int(Decimal(repr(usd)) * 10**9)
    assert spend.day_nusd is None


def test_ten_cents_are_ten_cents() -> None:
    rules = parse('[destinations.a]\nbase_url = "https://a.example"\n[spend.a]\nday_usd = 0.1\n', "grants.toml", Rules)
    assert rules.spend["a"].day_nusd == 100_000_000


def test_a_limit_of_a_destination_that_is_not_there_is_an_error() -> None:
    text = '[destinations.anthropic]\nbase_url = "https://a.example"\n[spend.antropic]\nday_tokens = 1\n'
    with pytest.raises(Fault, match="spend.antropic limits a destination that is not there"):
        parse(text, "grants.toml", Rules)
