"""A URL as both brokerd and egressd read it: the host that was decided on is the host that is asked.

Stricter than RFC 3986 and the WHATWG URL standard where they differ, because two readers that differ are a way around a
decision: no user, no backslash, no white space, no host that only some parsers take for a number.
"""

import ipaddress
import re
from typing import Final, NamedTuple
from urllib.parse import quote, urljoin

LONGEST_URL_CHARS: Final = 8192
_PORTS: Final = {"https": 443, "http": 80}
_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]@:/?#]+)(?::(?P<port>[0-9]{1,5}))?(?P<target>[/?][^#]*)?(?:#.*)?\Z",
    re.IGNORECASE,
)
_HIDDEN: Final = re.compile(r"[\x00-\x20\x7f-\xa0\\]|[^\S ]")
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")
_NUMBER: Final = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")
_LONGEST_HOST_CHARS: Final = 253
_NOT_A_NAME: Final = "the URL's host is not a name"
_KEPT: Final = "!#$%&'()*+,/:;=?@[]~-._"


class Url(NamedTuple):
    """A checked URL: `https` or `http`, the host in ASCII and lower case without brackets, the port, path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """The host as it stands in a URL or a Host header, with the port unless it is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        """The URL in its one form, without a fragment."""
        return f"{self.scheme}://{self.authority}{self.target}"


def parse_url(text: str) -> Url:
    """The parts of an absolute http or https URL.

    Raises:
        ValueError: it is none that can be asked for; the message is a sentence and quotes nothing.

    """
    if len(text) > LONGEST_URL_CHARS:
        raise ValueError(f"the URL is longer than {LONGEST_URL_CHARS} characters")
    if _HIDDEN.search(text):
        raise ValueError("the URL holds white space, a control character or a backslash")
    found = _URL.match(text)
    if found is None:
        raise ValueError("the URL is not http or https with a plain host")
    scheme = found["scheme"].lower()
    port = int(found["port"] or _PORTS[scheme])
    if not 0 < port < 1 << 16:
        raise ValueError("the URL's port is not one")
    target = found["target"] or "/"
    target = target if target.startswith("/") else f"/{target}"
    return Url(scheme, _host(found["host"]), port, _ascii(target))


def join_url(base: Url, location: str) -> Url:
    """Where a `Location` header sends, seen from the URL that was asked for. Raises as `parse_url`."""
    try:
        joined = urljoin(str(base), location.strip(" \t"))
    except ValueError:
        # Its sentence may quote what an unknown server sent.
        raise ValueError("the URL cannot be read") from None
    return parse_url(joined)


def _host(untrusted: str) -> str:
    if untrusted.startswith("["):
        try:
            return ipaddress.IPv6Address(untrusted[1:-1]).compressed
        except ValueError:
            raise ValueError("the URL's host is not an IPv6 address") from None
    host = _name(untrusted).removesuffix(".")
    labels = host.split(".")
    if _NUMBER.match(labels[-1]):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            raise ValueError("the URL's host is not an IPv4 address of four numbers") from None
    if len(host) > _LONGEST_HOST_CHARS or not all(map(_LABEL.match, labels)):
        raise ValueError(_NOT_A_NAME)
    return host


def _name(untrusted: str) -> str:
    """A host's name in ASCII and lower case (IDNA 2008, mapped as UTS 46 says)."""
    if untrusted.isascii():
        return untrusted.lower()
    import idna  # its tables are wanted for such names alone

    try:
        return idna.encode(untrusted, uts46=True).decode("ascii").lower()
    except (idna.IDNAError, UnicodeError):
        raise ValueError(_NOT_A_NAME) from None


def _ascii(target: str) -> str:
    try:
        return quote(target, safe=_KEPT)
    except UnicodeEncodeError:
        raise ValueError("the URL holds a lone surrogate") from None
