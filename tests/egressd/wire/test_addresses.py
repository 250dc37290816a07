"""No address that anybody calls private is public, and the ones that carry another address inside are not either."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd.wire.addresses import is_loopback, is_public

V4 = st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address)
V6 = st.integers(0, 2**128 - 1).map(ipaddress.IPv6Address)
NEAR = st.sampled_from([
    "::", "64:ff9b::", "64:ff9b:1::", "100::", "2001::", "2001:20::", "2001:db8::", "2002::", "2002:7f00:1::", "3fff::",
    "5f00::", "fc00::", "fe80::", "fec0::", "ff02::", "::ffff:0:0",
])  # fmt: skip
NEAR_V6 = st.builds(lambda base, low: ipaddress.IPv6Address(int(ipaddress.IPv6Address(base)) | low), NEAR, st.integers(0, 2**32))  # fmt: skip


@given(V4 | V6 | NEAR_V6)
def test_what_ipaddress_calls_inside_is_not_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    inside = (
        address.is_private or address.is_loopback or address.is_link_local or address.is_multicast
        or address.is_reserved or address.is_unspecified or not address.is_global
    )  # fmt: skip
    if isinstance(address, ipaddress.IPv6Address):
        carried = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        inside = inside or address.is_site_local or any(one is not None for one in carried)
    if inside:
        assert not is_public(str(address))


@given(V4)
def test_an_address_carried_in_another_is_never_public(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    for base in ("::ffff:0:0", "::", "64:ff9b::", "2001:0:4136:e378:8000:63bf::"):
        assert not is_public(str(ipaddress.IPv6Address(int(ipaddress.IPv6Address(base)) | number)))
    assert not is_public(str(ipaddress.IPv6Address((0x2002 << 112) | (number << 80))))


@given(V4 | V6 | NEAR_V6)
def test_loopback_is_what_it_is(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    loopback = address in ipaddress.ip_network("127.0.0.0/8") or address == ipaddress.IPv6Address("::1")
    assert is_loopback(str(address)) == loopback
    assert not (is_loopback(str(address)) and is_public(str(address)))


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.215.14", "2606:4700::1111", "2a00:1450:4001:81b::200e"])
def test_public_ones(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "0.0.0.0", "10.1.2.3", "100.64.0.1", "169.254.169.254", "172.31.0.1", "192.168.0.1", "224.0.0.1",
     "255.255.255.255", "198.18.0.1", "192.0.0.9", "::1", "::", "fe80::1", "fe80::1%eth0", "fd00::1", "ff02::1",
     "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1", "2001::1", "2001:db8::1", "", "localhost", "1.1.1", "2606:4700::1111%1"],
)  # fmt: skip
def test_inside_ones(address: str) -> None:
    assert not is_public(address)


def test_a_mapped_loopback_is_no_loopback() -> None:
    assert not is_loopback("::ffff:127.0.0.1")
