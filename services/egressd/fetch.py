"""One hop of a fetch that brokerd decided: exactly that URL, over a connection to an address that was checked.

Every address that the name has must be allowed, or none is asked: a name with one address outside and one inside is a
way in. The connection goes to the checked address, so that the name cannot be made to mean another one meanwhile.

A failure's sentence quotes nothing that a server sent: it reaches the model as our own words.
"""

import email.message
import re
import ssl
from typing import Final, Literal, NamedTuple

import anyio
import h11

from egressd.config import Fetch
from egressd.reader import MODULE, answered, question
from egressd.text import Text, plain
from egressd.wire.addresses import is_loopback, is_public
from egressd.wire.dial import Resolver, Upstream, dial_address, resolve
from egressd.wire.inflate import Overflow, inflater
from proto.messages.egress import Fetched, FetchFailed, FetchRedirected
from proto.role.worker import Worker, WorkerLost
from proto.urls import Url, join_url, parse_url

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_LONGEST_HEAD_BYTES: Final = 64 << 10
_FIRST_FREE_PORT: Final = 1024
_MOST_ADDRESSES: Final = 3
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_TEXTS: Final = frozenset({"application/json", "application/xml", "application/x-ndjson"})
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9!#$&^_.+-]{1,60}/[a-z0-9!#$&^_.+-]{1,60}\Z")
_OTHER_NAME: Final = frozenset({62, 64})
"""X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH (openssl/x509_vfy.h)."""
_MOST_READERS: Final = 2
"""So many pages are read at once; one takes a few seconds at most."""
_AGENT: Final = b"boxmaker"

Reason = Literal["address", "name", "connect", "tls", "timeout", "size", "protocol", "content"]


class _Failed(Exception):
    def __init__(self, reason: Reason, sentence: str) -> None:
        self.reason: Reason = reason
        super().__init__(sentence)


class _Response(NamedTuple):
    """A response whose body has been read, decompressed."""

    status: int
    content_type: str
    charset: str | None
    location: str | None
    body: bytes


class Fetcher:
    """Fetches hops; how names are resolved is given."""

    def __init__(self, limits: Fetch, tls: ssl.SSLContext, resolver: Resolver = resolve) -> None:
        self._limits = limits
        self._tls = tls
        self._resolve = resolver
        self._reading = anyio.CapacityLimiter(_MOST_READERS)

    async def hop(self, url: str, *, loopback: bool) -> Fetched | FetchRedirected | FetchFailed:
        """Fetch one hop; whatever fails is an answer."""
        try:
            with anyio.fail_after(self._limits.total_s):
                return await self._hop(_parsed(url, loopback=loopback), loopback=loopback)
        except TimeoutError:
            message = f"the fetch took longer than {self._limits.total_s:g} seconds"
            return FetchFailed(reason="timeout", message=message)
        except _Failed as failure:
            return FetchFailed(reason=failure.reason, message=str(failure))

    async def _hop(self, url: Url, *, loopback: bool) -> Fetched | FetchRedirected:
        addresses = await self._checked(url, loopback=loopback)
        upstream = await self._connected(url, addresses)
        try:
            response = await self._ask(url, upstream)
        except (anyio.BrokenResourceError, h11.ProtocolError):
            raise _Failed("protocol", "the server's answer is not HTTP, or breaks off") from None
        finally:
            await upstream.aclose()
        if response.location is not None:
            try:
                return FetchRedirected(status=response.status, location=str(join_url(url, response.location)))
            except ValueError as error:
                raise _Failed("protocol", f"the server sends elsewhere, and {error}") from None
        text = await self._text(url, response)
        return Fetched(
            url=str(url),
            status=response.status,
            content_type=response.content_type,
            text=text.text,
            truncated=text.truncated,
        )

    async def _checked(self, url: Url, *, loopback: bool) -> list[str]:
        """The addresses of the host, every one of them allowed."""
        try:
            addresses = await self._resolve(url.host, url.port)
        except (OSError, UnicodeError):
            addresses = []
        if not addresses:
            raise _Failed("name", "the host's name has no address")
        for address in addresses:
            inside = loopback and is_loopback(address)
            if not (inside if url.scheme == "http" else inside or is_public(address)):
                raise _Failed("address", "refused: the host's address is not a public one")
        return addresses[:_MOST_ADDRESSES]

    async def _connected(self, url: Url, addresses: list[str]) -> Upstream:
        try:
            return await dial_address(addresses, url.port, url.host if url.scheme == "https" else None, self._tls)
        except ssl.SSLCertVerificationError as error:
            raise _Failed("tls", f"the server's certificate is not valid: {_verdict(error)}") from None
        except ssl.SSLError:
            raise _Failed("tls", "the server does not speak TLS as it should") from None
        except OSError:
            raise _Failed("connect", "the server does not answer") from None

    async def _ask(self, url: Url, upstream: Upstream) -> _Response:
        http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_LONGEST_HEAD_BYTES)
        headers = [
            (b"Host", url.authority.encode("ascii")),
            (b"User-Agent", _AGENT),
            (b"Accept", b"text/html, text/*, application/json, application/xml;q=0.9"),
            (b"Accept-Encoding", b"gzip"),
            (b"Connection", b"close"),
        ]
        request = h11.Request(method=b"GET", target=url.target.encode("ascii"), headers=headers)
        await upstream.send((http.send(request) or b"") + (http.send(h11.EndOfMessage()) or b""))
        while isinstance(event := await _event(http, upstream), h11.InformationalResponse):
            pass
        if not isinstance(event, h11.Response):
            raise h11.RemoteProtocolError("no response")
        return await self._response(http, upstream, event)

    async def _response(self, http: h11.Connection, upstream: Upstream, head: h11.Response) -> _Response:
        named = {name: value.decode("utf-8", "replace") for name, value in head.headers}
        status = head.status_code
        if status in _REDIRECTS and "location" in (keys := {name.decode("ascii"): name for name in named}):
            return _Response(status, "", None, named[keys["location"]], b"")
        content_type, charset = _media_type(named.get(b"content-type", "text/plain"))
        if not (content_type.startswith("text/") or content_type in _TEXTS or content_type.endswith(("+json", "+xml"))):
            raise _Failed("content", "the page is no text, and only text is read")
        body = await self._body(http, upstream, named.get(b"content-encoding", ""))
        return _Response(status, content_type, charset, None, body)

    async def _body(self, http: h11.Connection, upstream: Upstream, encoding: str) -> bytes:
        reader = inflater(encoding, self._limits.body_bytes)
        if reader is None:
            raise _Failed("content", "the page is compressed in a way that is not read")
        body, came_bytes = bytearray(), 0
        try:
            while isinstance(event := await _event(http, upstream), h11.Data):
                came_bytes += len(event.data)
                body += reader.feed(bytes(event.data))
                if came_bytes > self._limits.body_bytes:
                    raise Overflow
            if isinstance(event, h11.EndOfMessage):
                reader.end()
        except Overflow:
            raise _Failed("size", f"the page is larger than {self._limits.body_bytes} bytes") from None
        except ValueError as error:
            raise _Failed("content", str(error)) from None
        if not isinstance(event, h11.EndOfMessage):
            raise h11.RemoteProtocolError("the body breaks off")
        return bytes(body)

    async def _text(self, url: Url, response: _Response) -> Text:
        limit = self._limits.text_bytes
        if response.content_type not in _HTML:
            return plain(response.body, response.charset, limit)
        async with self._reading:
            return await _read(question(response.body, response.charset, str(url), limit), self._limits.total_s)


async def _read(asked: bytes, within_s: float) -> Text:
    """The text of a page, read in a process of its own: a page may be made to take long, and a process can be ended."""
    try:
        worker = await Worker.start(MODULE)
        try:
            return answered(await worker.ask(asked, within_s))
        finally:
            await worker.end()
    except (WorkerLost, ValueError):
        raise _Failed("content", "the page takes too much to read") from None


def _parsed(text: str, *, loopback: bool) -> Url:
    try:
        url = parse_url(text)
    except ValueError as error:
        raise _Failed("protocol", f"refused: {error}") from None
    if url.scheme == "http" and not loopback:
        raise _Failed("protocol", "refused: only https is fetched")
    if url.scheme == "https" and url.port != 443 and url.port < _FIRST_FREE_PORT:
        raise _Failed("protocol", "refused: that port belongs to another service")
    return url


async def _event(http: h11.Connection, upstream: Upstream) -> object:
    while (event := http.next_event()) is h11.NEED_DATA:
        http.receive_data(await upstream.receive())
    return event


def _verdict(error: ssl.SSLCertVerificationError) -> str:
    """What is wrong with a certificate, in OpenSSL's words; those that quote the name are left out."""
    return "it is for another name" if error.verify_code in _OTHER_NAME else error.verify_message


def _media_type(header: str) -> tuple[str, str | None]:
    """The media type in lower case, and its charset."""
    message = email.message.Message()
    message["content-type"] = header.replace("\r", " ").replace("\n", " ")
    found = message.get_content_type()
    return (found if _MEDIA_TYPE.match(found) else "text/plain"), message.get_content_charset()
