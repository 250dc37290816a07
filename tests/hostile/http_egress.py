"""Malformed HTTP against egressd's socket for loopd: `python -m tests.hostile.http_egress --count N`.

After each batch the next good request must be answered whole; at the end the daemon must live and must not have grown,
and nothing that reached the upstream may have been anything but one well-formed request a connection.
"""

import argparse
import contextlib
import random
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import h11

from tests.e2e.box import Box, running
from tests.egressd import http
from tests.fakes.egress_broker import FakeBroker
from tests.fakes.upstream import USAGE, Upstream, answer, upstream
from tests.hostile.frames import rss_kib

_BATCH: Final = 50
_MOST_GROWTH_KIB: Final = 48 * 1024
_PIECES: Final = (
    b"\r\n", b"\n", b"\r", b"\x00", b" ", b"\t", b":", b"\r\n\r\n", b"Content-Length: 5\r\n", b"Content-Length: 99999999999\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n", b"X-Boxmaker-Session: chat-x\r\n", b"Host: y\r\n",
    b"Expect: 100-continue\r\n", b"Connection: upgrade\r\nUpgrade: websocket\r\n", b"GET / HTTP/1.1\r\nHost: z\r\n\r\n",
    b"HTTP/1.0", b"0\r\n\r\n", b"ffffffffffffffff\r\n", b"-1\r\n", b"/../", b"%2f", b"\xff\xfe", b"A" * 5000,
)  # fmt: skip
_CHUNKED: Final = http.request(headers="Transfer-Encoding: chunked\r\n", body=b"").replace(
    b"Content-Length: 0\r\n", b""
) + (b"%x\r\n%s\r\n0\r\n\r\n" % (len(http.BODY), http.BODY))
_SEEDS: Final = (http.request(), _CHUNKED, http.request("/up/v1/models", method="GET"), http.request("/none/v1/models"))


def hostile(rng: random.Random) -> tuple[bytes, bool]:
    """Bytes to send, and whether the sender closes without waiting for an answer."""
    data = bytearray(rng.choice(_SEEDS))
    for _ in range(rng.randrange(1, 5)):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0:
                data[at:at] = rng.choice(_PIECES)
            case 1 if at < len(data):
                data[at] = rng.randrange(256)
            case 2:
                del data[at : at + rng.randrange(1, 20)]
            case 3:
                data[at:at] = rng.randbytes(rng.randrange(1, 30))
            case 4:
                lines = data.split(b"\r\n")
                rng.shuffle(lines)
                data = bytearray(b"\r\n".join(lines))
            case _:
                data = data[:at] or bytearray(b"\r")
    return bytes(data), rng.random() < 0.3


def attack(home: Path, count: int, seed: int) -> None:
    """Send so many malformed requests; a good one must be answered after each batch."""
    rng = random.Random(seed)
    for number in range(count):
        data, leaves = hostile(rng)
        with http.connect(home) as client, contextlib.suppress(OSError):
            client.sendall(data)
            if not leaves:
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
        if number % _BATCH == _BATCH - 1:
            answered = http.post(home)
            assert (answered.status, answered.body, answered.whole) == (200, USAGE, True), number


def attack_egressd(box: Box, up: Upstream, count: int, seed: int) -> str:
    """Attack a running egressd; a line with what was seen."""
    attack(box.home, min(count, 500), seed)
    before = rss_kib(box.pid("egressd"))
    attack(box.home, count, seed + 1)
    grown = rss_kib(box.pid("egressd")) - before
    assert box.alive("egressd")
    assert "call-failed" not in box.log("egressd"), box.log("egressd")
    assert grown < _MOST_GROWTH_KIB, f"grew by {grown} KiB over {count} requests"
    for request in up.requests:
        assert well_formed(request), request
    return f"run/loop-egress/egress.sock {count:7} requests, {len(up.requests)} relayed, grew by {grown:6} KiB"


def well_formed(data: bytes) -> bool:
    """Whether some bytes are exactly one request of those that egressd relays, with nothing of its client's in it."""
    server = h11.Connection(h11.SERVER)
    server.receive_data(data)
    request = server.next_event()
    if not isinstance(request, h11.Request):
        return False
    while isinstance(server.next_event(), h11.Data):
        pass
    path = request.target.split(b"?")[0]
    names = {name for name, _ in request.headers}
    return (
        server.their_state in (h11.DONE, h11.MUST_CLOSE)
        and server.trailing_data[0] == b""
        and (request.method, path) in ((b"POST", b"/v1/chat/completions"), (b"GET", b"/v1/models"))
        and not any(name.startswith(b"x-") or name in (b"transfer-encoding", b"expect", b"upgrade") for name in names)
    )


@contextlib.contextmanager
def attacked(home: Path) -> Iterator[tuple[Box, Upstream]]:
    """A running egressd that relays to an upstream."""
    broker = FakeBroker(home)
    try:
        with upstream(answer(USAGE)) as up:
            (home / "grants.toml").write_text(f'[destinations.up]\nbase_url = "{up.url}"\n')
            with running(home, "egressd") as box:
                yield box, up
    finally:
        broker.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Attack an egressd of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parsed = parser.parse_args(arguments)
    home = Path(tempfile.mkdtemp(prefix="bx"))
    try:
        with attacked(home) as (box, up):
            sys.stdout.write(attack_egressd(box, up, parsed.count, parsed.seed) + "\n")
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
