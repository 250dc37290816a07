"""The owner's rules, as brokerd and egressd read them alike."""

from proto.rules import Destination


def test_an_entry_of_a_tunnel_is_a_host_and_a_port() -> None:
    rule = Destination(tunnels=["api.github.com", "gateway.example:8443"])
    assert rule.names_tunnel("api.github.com", 443)
    assert rule.names_tunnel("gateway.example", 8443)
    assert not rule.names_tunnel("api.github.com", 8443)
    assert not rule.names_tunnel("gateway.example", 443)
    assert not rule.names_tunnel("github.com", 443)
    assert not rule.names_tunnel("x.api.github.com", 443)
