"""Which addresses a fetch may connect to: what is reachable by everybody, and nothing that is inside.

The tables are the IANA special-purpose registries (RFC 6890, as of 2024), said here in full: what Python's `ipaddress`
knows differs between its versions. Addresses that carry another one inside (mapped, 6to4, Teredo, NAT64) are never
public.
"""

import ipaddress
from typing import Final

_INSIDE_4: Final = tuple(map(ipaddress.IPv4Network, (
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
    "224.0.0.0/4", "240.0.0.0/4",
)))  # fmt: skip
_UNICAST_6: Final = ipaddress.IPv6Network("2000::/3")
_INSIDE_6: Final = tuple(map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))


def is_public(address: str) -> bool:
    """Whether an address is a global unicast one; a text that is no address, or has a zone, is not."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv4Address):
        return not any(found in network for network in _INSIDE_4)
    if found.scope_id is not None or found not in _UNICAST_6:
        return False
    return not any(found in network for network in _INSIDE_6)


def is_loopback(address: str) -> bool:
    """Whether an address is 127.0.0.0/8 or ::1."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    return found.is_loopback and getattr(found, "ipv4_mapped", None) is None
