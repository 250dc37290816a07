"""A call over the real sockets of a real egressd: what leaves, what comes back, what is booked."""

import gzip
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proto.messages import egress
from tests.e2e.box import Box
from tests.egressd import http
from tests.egressd.conftest import KEY
from tests.fakes.egress_broker import FakeBroker
from tests.fakes.upstream import USAGE, answer, chunked, upstream

pytestmark = pytest.mark.measured

Destination = Callable[..., None]
Rows = Callable[..., list[Any]]


def test_a_stream_passes_byte_for_byte_and_is_booked(
    home: Path, box: Box, broker: FakeBroker, destination: Destination, rows: Rows
) -> None:
    with upstream(chunked([USAGE[:50], USAGE[50:51], USAGE[51:]])) as up:
        destination(up.url)
        answered = http.post(home)
    assert (answered.status, answered.body, answered.whole) == (200, USAGE, True)
    assert answered.headers["content-type"] == "text/event-stream"
    (asked,) = broker.asked
    assert (asked.session, asked.destination, asked.method) == (http.SESSION, "up", "POST")
    assert asked.path == "/v1/chat/completions"
    assert rows() == [
        egress.UsageRow(
            destination="up", model="scripted-1", status=200, calls=1, input_tokens=11, output_tokens=7,
            cache_read_tokens=5, billing="plan",
        )
    ]  # fmt: skip
    assert rows(session="chat-other") == []
    assert len(rows(since="2020-01-01T00:00:00Z")) == 1
    assert rows(since="2999-01-01T00:00:00Z") == []


def test_nothing_of_the_client_but_what_is_named_leaves(home: Path, box: Box, destination: Destination) -> None:
    sent = (
        "Authorization: Bearer client-own\r\nX-Api-Key: client-own\r\nCookie: a=b\r\nX-Other: y\r\n"
        "Accept-Encoding: br\r\nConnection: keep-alive, X-Other\r\nProxy-Authorization: Basic x\r\n"
        "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
        "Content-Type: application/json\r\nOpenAI-Organization: org-1\r\nX-Stainless-Lang: python\r\nUser-Agent: loopd\r\n"
    )
    with upstream(answer(USAGE)) as up:
        destination(f"{up.url}/api/", credential="UP_KEY")
        assert http.post(home, headers=sent, path="/up/v1/chat/completions?api-version=1").status == 200
        (request,) = up.requests
    head, _, body = request.partition(b"\r\n\r\n")
    assert body == http.BODY
    line, *headers = head.decode().split("\r\n")
    assert line == "POST /api/v1/chat/completions?api-version=1 HTTP/1.1"
    assert sorted(headers, key=str.lower) == [
        "Accept-Encoding: identity",
        f"Authorization: Bearer {KEY}",
        "Connection: close",
        f"Content-Length: {len(http.BODY)}",
        "Content-Type: application/json",
        f"Host: 127.0.0.1:{up.port}",
        "User-Agent: loopd",
        "X-Stainless-Lang: python",
    ]


def test_headers_of_one_hop_and_cookies_do_not_come_back(home: Path, box: Box, destination: Destination) -> None:
    headers = "Set-Cookie: a=b\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nx-request-id: r1\r\n"
    with upstream(answer(USAGE, headers=headers)) as up:
        destination(up.url)
        answered = http.post(home)
    assert set(answered.headers) == {"content-type", "content-length", "x-request-id", "connection"}
    assert answered.headers["connection"] == "close"


def test_the_destinations_are_read_again_and_an_invalid_file_refuses_everything(
    home: Path, box: Box, destination: Destination
) -> None:
    assert http.post(home).error["code"] == "destination-unknown"
    with upstream(answer(USAGE)) as up:
        destination(up.url)
        assert http.post(home).status == 200
        (home / "grants.toml").write_text('[destinations.up]\nbase_url = "https://a.example"\nceilling = "private"\n')
        refused = http.post(home)
        assert (refused.status, refused.error["code"]) == (403, "rules-invalid")
        message = refused.error["message"]
        assert message.startswith(f"refused: {home}/grants.toml, line 3: destinations.")
        assert message.endswith(".ceilling: unknown key (runbook: rules-invalid)")
        told = box.ask("owner-egress", egress.Destinations(), egress.DestinationsReply)
        assert told.destinations == []
        assert told.problem == message.removeprefix("refused: ").removesuffix(" (runbook: rules-invalid)")
        destination(up.url)
        assert http.post(home).status == 200


def test_a_base_url_that_leads_nowhere_is_named_with_its_line(home: Path, box: Box, destination: Destination) -> None:
    for url in ("https://user:pass@a.example", "https://a.example:99999", "http://127.0.0.999"):
        destination(url)
        refused = http.post(home)
        assert (refused.status, refused.error["code"]) == (403, "rules-invalid")
        assert "line 2: destinations.up.base_url:" in refused.error["message"]


OUTSIDE = [
    ("GET", "/up/v1/chat/completions", 404),
    ("POST", "/up/v1/completions", 404),
    ("POST", "/up/v1/models", 404),
    ("POST", "/up/v1/chat/completions/", 404),
    ("POST", "/up/v1/chat%2fcompletions", 404),
    ("POST", "/up//v1/chat/completions", 404),
    ("POST", "/up/../up/v1/chat/completions", 404),
    ("POST", "/up/v1/../v1/chat/completions", 404),
    ("POST", "/up", 404),
    ("DELETE", "/up/v1/models", 404),
    ("HEAD", "/up/v1/models", 404),
    ("CONNECT", "up:443", 400),
    ("POST", "/", 400),
    ("POST", "*", 400),
    ("POST", "http://up/v1/chat/completions", 400),
    ("POST", "//up/v1/chat/completions", 400),
]


def test_only_the_table_is_relayed(home: Path, box: Box, broker: FakeBroker, destination: Destination) -> None:
    with upstream(answer(USAGE)) as up:
        destination(up.url)
        found = [(method, path, http.post(home, path, method=method).status) for method, path, _ in OUTSIDE]
        assert found == OUTSIDE
        assert up.connections == 0
    assert broker.asked == []


def test_a_list_of_models_is_relayed_and_not_booked(
    home: Path, box: Box, broker: FakeBroker, destination: Destination, rows: Rows
) -> None:
    with upstream(answer(b'{"data":[]}', content_type="application/json")) as up:
        destination(up.url)
        answered = http.post(home, "/up/v1/models", method="GET")
    assert (answered.status, answered.body) == (200, b'{"data":[]}')
    assert [asked.path for asked in broker.asked] == ["/v1/models"]
    assert rows() == []


def test_a_missing_key_is_refused_and_a_file_of_keys_is_read(
    home: Path, box: Box, destination: Destination, rows: Rows
) -> None:
    with upstream(answer(USAGE)) as up:
        destination(up.url, credential="OTHER_KEY")
        refused = http.post(home)
        assert (refused.status, refused.error["code"]) == (403, "credential-missing")
        assert (
            "; give it with: bxctl credential set OTHER_KEY (runbook: credential-missing)" in refused.error["message"]
        )
        assert not box.ask("owner-egress", egress.Destinations(), egress.DestinationsReply).destinations[0].ready
        (home / "credentials.env").touch(mode=0o600)
        (home / "credentials.env").write_text("OTHER_KEY=sk-of-the-file-123\n")
        assert http.post(home).status == 200
        assert b"Bearer sk-of-the-file-123" in up.requests[0]
        assert box.ask("owner-egress", egress.Destinations(), egress.DestinationsReply).destinations[0].ready
    assert [(row.status, row.calls) for row in rows()] == [(200, 1), (403, 1)]


def test_a_key_is_nowhere_but_at_the_upstream(home: Path, box: Box, destination: Destination, rows: Rows) -> None:
    body = f'{{"error":{{"message":"Incorrect API key {KEY} provided"}}}}'.encode()
    headers = f"X-Echo: Bearer {KEY}\r\n"
    answers = []
    with upstream(answer(body, status="401 Unauthorized", headers=headers, content_type="application/json")) as up:
        destination(up.url, credential="UP_KEY")
        answers.append(http.post(home))
        up.script = chunked([bytes([byte]) for byte in body], headers=headers)
        answers.append(http.post(home))
        up.script = lambda connection: connection.sendall(KEY.encode() + b"\r\n\r\n")
        answers.append(http.post(home))
        assert all(KEY.encode() in request for request in up.requests)
        up.script = answer(gzip.compress(body), headers="Content-Encoding: gzip\r\n")
        answers.append(http.post(home))
        up.script = answer(b'{"model":"gpt %s"}' % KEY.encode(), headers=f"X-{KEY}: 1\r\n")
        answers.append(http.post(home))
        assert {row.model for row in rows()} >= {"gpt " + "*" * len(KEY)}
    destination("http://127.0.0.1:9", credential="UP_KEY")
    answers.append(http.post(home))
    assert [one.status for one in answers] == [401, 200, 502, 502, 200, 502]
    assert answers[3].error["code"] == "upstream-unreachable"
    assert "compressed" in answers[3].error["message"]
    assert answers[1].body == body.replace(KEY.encode(), b"*" * len(KEY))
    told = [one.raw for one in answers] + [repr(rows()).encode(), box.log("egressd").encode()]
    told += [path.read_bytes() for path in (home / "state/egressd").rglob("*") if path.is_file()]
    assert [text for text in told if KEY.encode() in text] == []


def test_an_error_of_the_upstream_comes_back_as_it_is(
    home: Path, box: Box, destination: Destination, rows: Rows
) -> None:
    with upstream(answer(b'{"error":{"message":"slow down"}}', status="429 Too Many Requests")) as up:
        destination(up.url)
        answered = http.post(home)
    assert (answered.status, answered.body) == (429, b'{"error":{"message":"slow down"}}')
    assert [(row.status, row.input_tokens) for row in rows()] == [(429, None)]


JUNK = [
    b"",
    b"HTTP/1.1 200",
    b"\x16\x03\x01\x00",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 30_000,
]


def test_an_upstream_that_speaks_no_http_is_502(home: Path, box: Box, destination: Destination, rows: Rows) -> None:
    with upstream(answer(b"")) as up:
        destination(up.url)
        for junk in JUNK:
            up.script = lambda connection, junk=junk: connection.sendall(junk)  # type: ignore[misc]
            answered = http.post(home)
            assert (answered.status, answered.error["code"]) == (502, "upstream-unreachable")
    assert [(row.status, row.calls) for row in rows()] == [(502, len(JUNK))]


def test_an_answer_that_breaks_off_is_seen_to_break_off(
    home: Path, box: Box, destination: Destination, rows: Rows
) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with upstream(lambda connection: connection.sendall(head + b"%x\r\n%s\r\n" % (len(USAGE), USAGE))) as up:
        destination(up.url)
        answered = http.post(home)
    assert (answered.status, answered.body, answered.whole) == (200, USAGE, False)
    assert [(row.status, row.input_tokens) for row in rows()] == [(200, 11)]


def test_a_client_that_leaves_does_not_stop_the_count(
    home: Path, box: Box, destination: Destination, rows: Rows
) -> None:
    left = threading.Event()

    def script(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(USAGE) + 100_000))
        connection.sendall(b": " + b"x" * 49_996 + b"\n\n")
        assert left.wait(10)
        connection.sendall(b": " + b"x" * 49_996 + b"\n\n")
        time.sleep(0.05)
        connection.sendall(USAGE)

    with upstream(script) as up:
        destination(up.url)
        with http.connect(home) as client:
            client.sendall(http.request())
            client.recv(100)
        left.set()
        deadline = time.monotonic() + 10
        while not rows() and time.monotonic() < deadline:
            time.sleep(0.02)
    assert [(row.status, row.input_tokens, row.output_tokens) for row in rows()] == [(200, 11, 7)]


def test_a_large_body_is_spooled_and_leaves_no_file(home: Path, box: Box, destination: Destination) -> None:
    body = b'{"model":"m","x":"' + b"a" * (5 << 20) + b'"}'
    before = {path.name for path in (home / "state/egressd").iterdir()}
    with upstream(answer(USAGE)) as up:
        destination(up.url)
        assert http.post(home, body=body).status == 200
        assert up.requests[0].endswith(body)
    after = {path.name for path in (home / "state/egressd").iterdir()}
    assert {name.split("-")[0] for name in after - before} <= {"usage.sqlite3"}


def test_a_unix_socket_below_the_home_is_a_destination(home: Path, box: Box, destination: Destination) -> None:
    with upstream(answer(USAGE), unix=home / "run/egress-model/model.sock"):
        destination("unix:run/egress-model/model.sock")
        assert http.post(home).body == USAGE


@settings(max_examples=25)
@given(
    body=st.binary(max_size=3000),
    said=st.text(max_size=300),
    indent=st.sampled_from([None, 1, "\t\r\n "]),
    cuts=st.lists(st.integers(0, 3000), max_size=10),
)
def test_any_body_in_any_pieces_goes_and_comes_as_it_was_sent(
    home: Path, box: Box, destination: Destination, body: bytes, said: str, indent: str | int | None, cuts: list[int]
) -> None:
    sent = json.dumps({"messages": [said], said: 0}, ensure_ascii=len(said) % 2 == 0, indent=indent).encode()
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    pieces = [body[a:b] for a, b in itertools.pairwise(places)]
    with upstream(chunked(pieces)) as up:
        destination(up.url)
        answered = http.post(home, body=sent)
        assert up.requests[0].partition(b"\r\n\r\n")[2] == sent
    assert (answered.body, answered.whole) == (body, True)


def test_sigterm_ends_it_and_books_what_is_under_way(
    home: Path, box: Box, broker: FakeBroker, destination: Destination, rows: Rows
) -> None:
    begun = threading.Event()

    def script(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + USAGE)
        begun.set()
        connection.recv(1)

    with upstream(script) as up:
        destination(up.url)
        with http.connect(home) as client:
            client.sendall(http.request())
            assert begun.wait(10)
            client.recv(10)
            assert box.stop("egressd") == {"egressd": 0}
    box.start("egressd")
    assert [(row.status, row.calls, row.input_tokens) for row in rows()] == [(200, 1, 11)]


def test_a_crash_leaves_a_row(home: Path, box: Box, destination: Destination, rows: Rows) -> None:
    begun = threading.Event()

    def script(connection: socket.socket) -> None:
        begun.set()
        connection.recv(1)

    with upstream(script) as up:
        destination(up.url)
        with http.connect(home) as client:
            client.sendall(http.request())
            assert begun.wait(10)
            box.kill("egressd")
    box.start("egressd")
    assert [(row.status, row.calls) for row in rows()] == [(0, 1)]
