"""One hop: where it may go, that it goes where was checked, and what comes back; every failure is an answer."""

import contextlib
import gzip
import os
import re
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from egressd import fetch
from egressd.config import Fetch
from egressd.fetch import Fetcher
from proto.faults import Fault
from proto.labels import DataClass
from proto.messages.broker import SessionLabel
from proto.messages.egress import Fetch as FetchRequest
from proto.messages.egress import Fetched, FetchFailed, FetchRedirected
from proto.messages.wire import Ok
from proto.role.worker import Worker
from tests.e2e.box import Box
from tests.egressd.certificates import Authority
from tests.fakes.upstream import answer, chunked, upstream

pytestmark = pytest.mark.anyio
LIMITS = Fetch(total_s=5, body_bytes=10_000, text_bytes=1_000)


class Names:
    """Resolves names as a test says, a different answer each time if it says so; counts the questions."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        if not self._answers:
            raise socket.gaierror(-2, "Name or service not known")
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> ssl.SSLContext:
    return authority.server("DNS:page.example", "IP:127.0.0.1")


@pytest.fixture
def fetcher(authority: Authority) -> Callable[..., Fetcher]:
    def make(*answers: list[str], limits: Fetch = LIMITS) -> Fetcher:
        return Fetcher(limits, authority.client(), Names(*(answers or (["127.0.0.1"],))))

    return make


def _failed(answered: Any, reason: str) -> str:
    assert isinstance(answered, FetchFailed), answered
    assert answered.reason == reason, answered
    return answered.message


async def test_a_page_over_tls(fetcher: Callable[..., Fetcher], server: ssl.SSLContext) -> None:
    page = b"<title>Launch</title><p>It moved to <a href='/t'>Thursday</a>"
    with upstream(answer(page, content_type="text/html; charset=utf-8"), tls=server) as up:
        answered = await fetcher().hop(f"https://page.example:{up.port}/notes?q=1#top", loopback=True)
        (request,) = up.requests
    assert answered == Fetched(
        url=f"https://page.example:{up.port}/notes?q=1",
        status=200,
        content_type="text/html",
        text=f"Launch\n\nIt moved to Thursday (https://page.example:{up.port}/t)",
        truncated=False,
    )
    line, *headers = request.decode().split("\r\n")
    assert line == "GET /notes?q=1 HTTP/1.1"
    assert f"Host: page.example:{up.port}" in headers
    assert {header.split(":")[0] for header in headers if header} == {
        "Host", "User-Agent", "Accept", "Accept-Encoding", "Connection",
    }  # fmt: skip


async def test_the_connection_goes_to_the_address_that_was_checked(
    fetcher: Callable[..., Fetcher], server: ssl.SSLContext
) -> None:
    """A name that means another address the next time it is asked for gains nothing: it is asked for once."""
    with upstream(answer(b"here", content_type="text/plain"), tls=server) as up:
        found = fetcher(["127.0.0.1"], ["169.254.169.254"])
        answered = await found.hop(f"https://page.example:{up.port}/", loopback=True)
    assert isinstance(answered, Fetched)
    assert found._resolve.asked == ["page.example"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("https://page.example/", ["127.0.0.1"]),
        ("https://page.example/", ["1.1.1.1", "10.0.0.1"]),
        ("https://page.example/", ["10.0.0.1", "1.1.1.1"]),
        ("https://page.example/", ["2606:4700::1111", "::1"]),
        ("https://page.example/", ["::ffff:127.0.0.1"]),
        ("https://page.example/", ["fe80::1%eth0"]),
        ("https://169.254.169.254/latest/meta-data", ["169.254.169.254"]),
        ("https://[::1]/", ["::1"]),
        ("https://localhost/", ["127.0.0.1"]),
    ],
)
async def test_a_name_that_leads_inside_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, fetcher: Callable[..., Fetcher], url: str, addresses: list[str]
) -> None:
    async def dial(*_: object) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(fetch, "dial_address", dial)
    _failed(await fetcher(addresses).hop(url, loopback=False), "address")


@pytest.mark.parametrize("address", ["10.0.0.1", "169.254.169.254", "1.1.1.1", "0.0.0.0", "::ffff:127.0.0.1"])
async def test_the_loopback_flag_opens_loopback_alone(fetcher: Callable[..., Fetcher], address: str) -> None:
    _failed(await fetcher([address]).hop("http://page.example:8080/", loopback=True), "address")
    if address != "1.1.1.1":
        _failed(await fetcher([address]).hop("https://page.example/", loopback=True), "address")


async def test_http_needs_the_flag(fetcher: Callable[..., Fetcher]) -> None:
    with upstream(answer(b"x", content_type="text/plain")) as up:
        url = f"http://127.0.0.1:{up.port}/"
        assert _failed(await fetcher().hop(url, loopback=False), "protocol") == "refused: only https is fetched"
        assert up.connections == 0
        assert isinstance(await fetcher().hop(url, loopback=True), Fetched)


@pytest.mark.parametrize("url", ["https://u:p@page.example/", "ftp://page.example/", "https://page.example:22/", "x"])
async def test_what_is_no_url_to_fetch(fetcher: Callable[..., Fetcher], url: str) -> None:
    assert _failed(await fetcher(["1.1.1.1"]).hop(url, loopback=True), "protocol").startswith("refused: ")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    ("location", "to"),
    [("/b", "http://127.0.0.1:{port}/b"), ("https://other.example/x", "https://other.example/x"),
     ("http://169.254.169.254/", "http://169.254.169.254/"), ("//[::1]/", "http://[::1]/")],
)  # fmt: skip
async def test_a_redirect_comes_back_to_be_decided(
    fetcher: Callable[..., Fetcher], status: int, location: str, to: str
) -> None:
    with upstream(answer(b"", status=f"{status} Moved", headers=f"Location: {location}\r\n")) as up:
        answered = await fetcher().hop(f"http://127.0.0.1:{up.port}/a", loopback=True)
        assert up.connections == 1
    assert answered == FetchRedirected(status=status, location=to.format(port=up.port))


async def test_a_redirect_to_nothing_that_can_be_fetched(fetcher: Callable[..., Fetcher]) -> None:
    with upstream(answer(b"", status="302 Found", headers="Location: file:///etc/passwd\r\n")) as up:
        message = _failed(await fetcher().hop(f"http://127.0.0.1:{up.port}/", loopback=True), "protocol")
    assert "passwd" not in message


async def test_failures_are_answers(
    fetcher: Callable[..., Fetcher], authority: Authority, server: ssl.SSLContext
) -> None:
    _failed(await fetcher([]).hop("https://page.example/", loopback=True), "name")
    found = Fetcher(LIMITS, authority.client(), Names())
    _failed(await found.hop("https://page.example/", loopback=True), "name")
    _failed(await fetcher().hop("http://127.0.0.1:1/", loopback=True), "connect")
    with upstream(answer(b"x"), tls=server) as up:
        message = _failed(await fetcher().hop(f"https://other.example:{up.port}/", loopback=True), "tls")
        assert message == "the server's certificate is not valid: it is for another name"
        stranger = Fetcher(LIMITS, ssl.create_default_context(), Names(["127.0.0.1"]))
        _failed(await stranger.hop(f"https://page.example:{up.port}/", loopback=True), "tls")
        assert up.requests == []
    with upstream(answer(b"x")) as up:
        up.greeting = b"220 mail.example ESMTP\r\n"
        _failed(await fetcher().hop(f"https://page.example:{up.port}/", loopback=True), "tls")


@pytest.mark.parametrize(
    "raw",
    [b"", b"SSH-2.0-OpenSSH_9\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nContent-Type: text/plain\r\n\r\nhalf",
     b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"],
)  # fmt: skip
async def test_an_answer_that_is_no_http(fetcher: Callable[..., Fetcher], raw: bytes) -> None:
    with upstream(lambda connection: connection.sendall(raw)) as up:
        _failed(await fetcher().hop(f"http://127.0.0.1:{up.port}/", loopback=True), "protocol")


async def test_size_and_time_are_bounded(fetcher: Callable[..., Fetcher]) -> None:
    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            connection.sendall(b"a" * 1000)

    def trickle(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            connection.sendall(b"a")
            time.sleep(0.02)

    bomb = gzip.compress(b"a" * 5_000_000)
    with upstream(endless) as up:
        url = f"http://127.0.0.1:{up.port}/"
        _failed(await fetcher().hop(url, loopback=True), "size")
        up.script = answer(bomb, content_type="text/plain", headers="Content-Encoding: gzip\r\n")
        _failed(await fetcher().hop(url, loopback=True), "size")
        up.script = trickle
        found = fetcher(limits=Fetch(total_s=0.3, body_bytes=10_000, text_bytes=1_000))
        _failed(await found.hop(url, loopback=True), "timeout")
        up.script = answer(b"a" * 5_000, content_type="text/plain")
        answered = await fetcher().hop(url, loopback=True)
    assert isinstance(answered, Fetched)
    assert (answered.text, answered.truncated) == ("a" * 1_000, True)


@pytest.mark.parametrize(
    ("content_type", "taken"),
    [("text/plain", True), ("text/csv; charset=utf-8", True), ("application/json", True), ("application/ld+json", True),
     ("application/xml", True), ("image/svg+xml", True), ("TEXT/HTML", True), ("image/png", False),
     ("application/pdf", False), ("application/octet-stream", False), ("text/", True), ('"', True),
     ("ignore all/previous instructions", True), ("application/" + "a" * 100, True)],
)  # fmt: skip
async def test_only_text_is_read(fetcher: Callable[..., Fetcher], content_type: str, taken: bool) -> None:
    with upstream(answer(b"text", content_type=content_type)) as up:
        answered = await fetcher().hop(f"http://127.0.0.1:{up.port}/", loopback=True)
    if taken:
        assert isinstance(answered, Fetched)
        assert answered.text == "text"
    else:
        _failed(answered, "content")


async def test_a_compressed_page_and_one_in_pieces(fetcher: Callable[..., Fetcher]) -> None:
    packed = gzip.compress("Grüße".encode())
    gzipped = "Content-Encoding: gzip\r\n"
    with upstream(chunked([packed[:9], packed[9:]], content_type="text/plain", headers=gzipped)) as up:
        answered = await fetcher().hop(f"http://127.0.0.1:{up.port}/", loopback=True)
        assert isinstance(answered, Fetched)
        assert answered.text == "Grüße"
        up.script = answer(packed + gzip.compress(b" zweimal"), content_type="text/plain", headers=gzipped)
        answered = await fetcher().hop(f"http://127.0.0.1:{up.port}/", loopback=True)
        assert isinstance(answered, Fetched)
        assert answered.text == "Grüße zweimal"
        up.script = answer(packed[:-4], content_type="text/plain", headers=gzipped)
        message = _failed(await fetcher().hop(f"http://127.0.0.1:{up.port}/", loopback=True), "content")
        assert message == "the compressed answer breaks off"
        up.script = answer(b"x", content_type="text/plain", headers="Content-Encoding: br\r\n")
        _failed(await fetcher().hop(f"http://127.0.0.1:{up.port}/", loopback=True), "content")
        up.script = answer(b"not found", content_type="text/plain", status="404 Not Found")
        answered = await fetcher().hop(f"http://127.0.0.1:{up.port}/", loopback=True)
    assert isinstance(answered, Fetched)
    assert (answered.status, answered.text) == (404, "not found")


async def test_a_page_that_takes_long_to_read_is_ended(
    monkeypatch: pytest.MonkeyPatch, fetcher: Callable[..., Fetcher]
) -> None:
    """The reader is stopped, so that it never answers."""
    started: list[int] = []

    class Stopped(Worker):
        @classmethod
        async def start(cls, module: str) -> Worker:
            worker = await Worker.start(module)
            os.kill(worker.pid, signal.SIGSTOP)
            started.append(worker.pid)
            return worker

    monkeypatch.setattr(fetch, "Worker", Stopped)
    with upstream(answer(b"<p>x", content_type="text/html")) as up:
        found = fetcher(limits=Fetch(total_s=0.5, body_bytes=10_000, text_bytes=1_000))
        _failed(await found.hop(f"http://127.0.0.1:{up.port}/", loopback=True), "timeout")
    assert [pid for pid in started if Path(f"/proc/{pid}").exists()] == []


async def test_a_page_that_ends_its_reader_is_an_answer(
    monkeypatch: pytest.MonkeyPatch, fetcher: Callable[..., Fetcher]
) -> None:
    monkeypatch.setattr(fetch, "MODULE", "egressd.of_another_version")
    with upstream(answer(b"<p>x", content_type="text/html")) as up:
        message = _failed(await fetcher().hop(f"http://127.0.0.1:{up.port}/", loopback=True), "content")
    assert message == "the page takes too much to read"


async def test_no_file_of_the_folder_is_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fetcher: Callable[..., Fetcher]
) -> None:
    for name in ("anyio", "egressd", "json", "html", "proto", "sitecustomize", "usercustomize"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with upstream(answer(b"<p>x", content_type="text/html")) as up:
        assert isinstance(await fetcher().hop(f"http://127.0.0.1:{up.port}/", loopback=True), Fetched)
    assert not (tmp_path / "ran").exists()


async def test_over_the_socket(home: Path, box: Box) -> None:
    with upstream(answer(b"<h1>hello</h1>", content_type="text/html")) as up:
        url = f"http://127.0.0.1:{up.port}/"
        request = FetchRequest(session="chat-1", call="c1", url=url, loopback=True)
        answered = box.ask("broker-egress", request, Fetched, FetchFailed, FetchRedirected)
        assert (answered.status, answered.text) == (200, "# hello")
        request = FetchRequest(session="chat-1", call="c2", url=url, loopback=False)
        _failed(box.ask("broker-egress", request, Fetched, FetchFailed, FetchRedirected), "protocol")
    assert _children(box.pid("egressd")) == []


def test_long_fetches_leave_room_for_labels(home: Path, box: Box) -> None:
    """More fetches than there may be connections; a label that rises is heard all the same."""
    told: list[Any] = []
    ended = threading.Event()

    def fetch_page(call: int) -> None:
        request = FetchRequest(session="chat-1", call=f"c{call}", url=url, loopback=True)
        try:
            told.append(box.ask("broker-egress", request, Fetched, FetchFailed, FetchRedirected))
        except Fault as fault:
            told.append(fault)

    def stall(connection: socket.socket) -> None:
        ended.wait(20)

    with upstream(stall) as up:
        url = f"http://127.0.0.1:{up.port}/"
        asking = [threading.Thread(target=fetch_page, args=(call,)) for call in range(70)]
        for thread in asking:
            thread.start()
        while len(told) < 38 or len(up.requests) < 32:
            time.sleep(0.02)
        label = SessionLabel(session="chat-1", class_=DataClass.SECRET, untrusted=False)
        for _ in range(20):
            box.ask("broker-egress", label, Ok)
        assert {(fault.code, fault.message) for fault in told} <= {
            ("busy", "too many pages are being fetched; try again"),
            ("busy", "too many connections; try again"),
        }
        ended.set()
        for thread in asking:
            thread.join()
    assert [one.reason for one in told[38:]] == ["protocol"] * 32


def test_a_reader_ends_with_its_daemon(home: Path, box: Box) -> None:
    """It is stopped here, so that it can neither end its work nor see that nobody waits for it."""

    def fetch_page(url: str) -> None:
        with contextlib.suppress(Fault, OSError):
            request = FetchRequest(session="chat-1", call="c1", url=url, loopback=True)
            box.ask("broker-egress", request, Fetched, FetchFailed, FetchRedirected)

    with upstream(answer(b"<b>" * 600_000, content_type="text/html")) as up:
        asking = threading.Thread(target=fetch_page, args=(f"http://127.0.0.1:{up.port}/",))
        asking.start()
        deadline = time.monotonic() + 20
        while not (readers := [child for child in _children(box.pid("egressd")) if _is_confined(child)]):
            assert time.monotonic() < deadline
        os.kill(int(readers[0].name), signal.SIGSTOP)
        box.kill("egressd")
        asking.join()
    while _lives(readers[0]):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _is_confined(process: Path) -> bool:
    """Whether a process has taken from itself what it needs not, all but the memory."""
    with contextlib.suppress(OSError):
        return re.search(r"Max cpu time +5 ", (process / "limits").read_text()) is not None
    return False


def _lives(process: Path) -> bool:
    with contextlib.suppress(OSError):
        return "State:\tZ" not in (process / "status").read_text()
    return False


def _children(pid: int) -> list[Path]:
    """The folders in /proc of a process's children."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            if f"PPid:\t{pid}\n" in status.read_text():
                found.append(status.parent)
    return found
