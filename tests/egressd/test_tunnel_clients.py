"""Tunnels with real TLS on both ends: OpenSSL, curl and Node through the door of a session, as from its sandbox."""

import contextlib
import http.client
import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from egressd.config import Tunnel
from tests.egressd.certificates import Authority
from tests.egressd.connects import tunnelled
from tests.fakes.session_door import Door, session_door
from tests.fakes.tls import Secured, Server, capitals, server

HOST = "api.example.test"
OTHER = "other.example.test"
NODE = """
const [proxy, host, port, name, ca] = process.argv.slice(1);
const connect = { host: "127.0.0.1", port: proxy, method: "CONNECT", path: `${host}:${port}` };
const request = require("http").request(connect).on("connect", (answer, socket) => {
  if (answer.statusCode !== 200) { console.log(answer.statusCode); process.exit(); }
  const secured = require("tls").connect({ socket, servername: name, ca: require("fs").readFileSync(ca) }, () => {
    secured.write("node"); });
  secured.on("data", (data) => { console.log(data.toString()); secured.end(); });
  secured.on("error", (error) => { console.log(error.code); process.exit(); });
});
request.end();
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def context(authority: Authority) -> ssl.SSLContext:
    return authority.server(f"DNS:{HOST}", f"DNS:{OTHER}")


@pytest.fixture
def secured(context: ssl.SSLContext) -> Secured:
    return Secured(context, capitals)


@pytest.fixture
def up(secured: Secured) -> Iterator[Server]:
    with server(secured) as found:
        yield found


@pytest.fixture
def door(home: Path, up: Server) -> Iterator[Door]:
    (home / "grants.toml").write_text(f'[destinations.up]\ntunnels = ["{HOST}:{up.port}"]\n')
    with session_door(home, Tunnel(inside=[HOST])) as found:
        yield found


@contextlib.contextmanager
def secure(door: Door, up: Server, authority: Authority, name: str = HOST) -> Iterator[ssl.SSLSocket]:
    """A TLS client of the server through a tunnel."""
    client, answered = tunnelled(door.path, f"{HOST}:{up.port}")
    assert answered.status == 200
    with client, authority.client().wrap_socket(client, server_hostname=name, suppress_ragged_eofs=False) as found:
        yield found


def run(*words: str, said: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program of the machine; a test that needs it is skipped where there is none."""
    if shutil.which(words[0]) is None:
        pytest.skip(f"this machine has no {words[0]}")
    environ = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    return subprocess.run(words, input=said, capture_output=True, text=True, timeout=20, env=environ, check=False)


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_python(
    door: Door, up: Server, authority: Authority, secured: Secured, context: ssl.SSLContext, newest: ssl.TLSVersion
) -> None:
    context.maximum_version = newest
    with secure(door, up, authority) as client:
        client.sendall(b"hello")
        assert client.recv(100) == b"HELLO"
        client.unwrap()
    assert secured.names == [HOST]
    assert secured.versions == [newest.name.replace("_", ".")]
    assert up.problems == []


def test_a_server_that_asks_for_a_second_hello(
    door: Door, up: Server, authority: Authority, secured: Secured, context: ssl.SSLContext
) -> None:
    # OpenSSL offers a key of another group first.
    context.set_ecdh_curve("secp384r1")
    with secure(door, up, authority) as client:
        client.sendall(b"hello")
        assert client.recv(100) == b"HELLO"
    # The server looks at the name of each.
    assert secured.names == [HOST, HOST]
    assert secured.versions == ["TLSv1.3"]


def test_python_learns_why_not(door: Door, up: Server, authority: Authority) -> None:
    with pytest.raises(ssl.SSLError) as caught, secure(door, up, authority, name=OTHER):
        pass
    assert caught.value.reason == "TLSV1_UNRECOGNIZED_NAME"
    assert up.connections == 0


def test_pythons_own_tunnel(door: Door, up: Server, authority: Authority, secured: Secured) -> None:
    """`http.client` asks by HTTP/1.0."""
    up.script = Secured(authority.server(f"DNS:{HOST}"), _page)
    with door.over_tcp() as port:
        client = http.client.HTTPSConnection("127.0.0.1", port, context=authority.client(), timeout=10)
        client.set_tunnel(HOST, up.port)
        client.request("GET", "/page")
        assert client.getresponse().read() == b"GET /page"
        client.close()
        client.set_tunnel(OTHER, up.port)
        with pytest.raises(OSError, match="403"):
            client.request("GET", "/page")


def _once(connection: ssl.SSLSocket) -> None:
    """Answers once, and ends."""
    connection.sendall(connection.recv(65536).upper())
    connection.unwrap()


def _page(connection: ssl.SSLSocket) -> None:
    """Answers a request by its first words."""
    request = b""
    while b"\r\n\r\n" not in request:
        request += connection.recv(65536)
    words = b" ".join(request.split(b" ", 2)[:2])
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(words), words))
    with contextlib.suppress(OSError):
        connection.unwrap()


def test_openssl(door: Door, up: Server, authority: Authority, context: ssl.SSLContext) -> None:
    secured = up.script = Secured(context, _once)
    with door.over_tcp() as port:
        words = (
            "openssl", "s_client", "-proxy", f"127.0.0.1:{port}", "-connect", f"{HOST}:{up.port}",
            "-CAfile", str(authority.ca_file), "-verify_return_error",
        )  # fmt: skip
        passed = run(*words, "-quiet", "-servername", HOST, said="openssl\n")
        assert "OPENSSL" in passed.stdout
        other = run(*words, "-servername", OTHER)
        assert "unrecognized name" in other.stderr and other.returncode != 0
        nameless = run(*words, "-noservername")
        assert "unrecognized name" in nameless.stderr and nameless.returncode != 0
    assert secured.names == [HOST]
    assert up.connections == 1


def test_curl(door: Door, up: Server, authority: Authority) -> None:
    up.script = Secured(authority.server(f"DNS:{HOST}"), _page)
    with door.over_tcp() as port:
        words = (
            "curl", "-sS", "--noproxy", "", "-x", f"http://127.0.0.1:{port}", "--cacert", str(authority.ca_file),
            "--max-time", "15",
        )  # fmt: skip
        passed = run(*words, f"https://{HOST}:{up.port}/page")
        assert (passed.stdout, passed.returncode) == ("GET /page", 0)
        unlisted = run(*words, f"https://{OTHER}:{up.port}/page")
        assert "403" in unlisted.stderr and unlisted.returncode == 56
        other = run(*words, "--connect-to", f"{OTHER}:443:{HOST}:{up.port}", f"https://{OTHER}/page")
        assert "unrecognized name" in other.stderr and other.returncode == 35
        plain = run(*words, "--proxytunnel", f"http://{HOST}:{up.port}/page")
        assert plain.returncode == 52  # an empty answer
    assert up.connections == 1


def test_node(door: Door, up: Server, authority: Authority) -> None:
    def node(host: str, name: str) -> str:
        found = run("node", "-e", NODE, str(port), host, str(up.port), name, str(authority.ca_file))
        return found.stdout.strip() or found.stderr

    with door.over_tcp() as port:
        assert node(HOST, HOST) == "NODE"
        assert node(OTHER, OTHER) == "403"
        assert "UNRECOGNIZED_NAME" in node(HOST, OTHER)
    assert up.connections == 1
