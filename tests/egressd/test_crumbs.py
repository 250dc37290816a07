"""An upstream that answers in crumbs, or never comes to its head, keeps nobody else waiting."""

import socket
import threading
import time
from collections.abc import Callable

import pytest

from tests.e2e.box import Box
from tests.egressd import own
from tests.egressd.http import Response
from tests.fakes.upstream import upstream

Destination = Callable[..., None]

BODY = b'{"model":"m","messages":[]}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def egressd_toml() -> str:
    return "[relay]\nanswer_s = 1.0\n"


def test_crumbs_pass_as_they_came_and_others_pass_them(box: Box, destination: Destination) -> None:
    whole, told = b"x" * 60_000, b"HTTP/1.1 100 \r\n\r\n" * 3_000
    with upstream(lambda peer: peer.sendall(told + HEAD + b"1\r\nx\r\n" * len(whole) + b"0\r\n\r\nmore")) as up:
        destination(up.url)
        door = own.opened(box)
        found: list[Response] = []
        call = own.request("/v1/chat/completions", BODY)
        asking = threading.Thread(target=lambda: found.append(own.exchange(door, call)))
        asking.start()
        passed = 0
        while asking.is_alive():
            passed += own.exchange(door, own.request("/", method="GET")).status == 200
        assert (found[0].status, found[0].whole, found[0].body) == (200, True, whole)
        assert passed > 2


def _never(peer: socket.socket) -> None:
    while True:
        peer.sendall(b"HTTP/1.1 103 \r\n\r\n")
        time.sleep(0.1)


def test_a_head_that_never_comes_is_given_up(box: Box, destination: Destination) -> None:
    with upstream(_never) as up:
        destination(up.url)
        answered = own.exchange(own.opened(box), own.request("/v1/chat/completions", BODY))
        assert (answered.status, answered.error["code"]) == (502, "upstream-unreachable")
