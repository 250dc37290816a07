"""Two hundred calls at once below a limit: not one token over it, and nearly all of it used."""

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.box import Box
from tests.egressd import http
from tests.egressd.limits import measure
from tests.fakes.upstream import USAGE, answer, upstream

CALLS = 200


@pytest.mark.e2e
@pytest.mark.timeout(120)
def test_not_one_token_is_spent_above_a_limit_and_nearly_all_below_it(home: Path) -> None:
    seed = int(time.time())
    found = measure(home, CALLS, seed, reservations=25)
    told = f"seed {seed}: {found} {found.statuses}"
    assert found.given <= found.limit, told
    assert found.given >= 0.95 * found.limit, told
    assert found.told == found.given, told
    assert sum(row.calls for row in found.rows) == CALLS, told
    assert sum(row.partial for row in found.rows) == 0, told
    # A client that left while its call waited for room has a row without an answer.
    assert {row.status for row in found.rows} - {0} == {200, 403}, told
    assert found.statuses.keys() <= {200, 403}, told


def test_a_call_whose_client_left_while_it_waited_for_room_does_not_leave(
    home: Path, box: Box, rows: Callable[..., list[Any]]
) -> None:
    body = b'{"model":"m","max_tokens":100,"messages":[]}'
    first, release = threading.Event(), threading.Event()

    def script(connection: socket.socket) -> None:
        first.set()
        assert release.wait(20)
        answer(USAGE)(connection)

    with upstream(script) as up:
        rule = f'[destinations.up]\nbase_url = "{up.url}"\n[spend.up]\nsession_tokens = 200\n'
        (home / "grants.toml").write_text(rule)
        with http.connect(home) as running, http.connect(home) as waiting:
            running.sendall(http.request(body=body))
            assert first.wait(20)
            waiting.sendall(http.request(body=body))
            time.sleep(0.1)
            waiting.close()
            release.set()
            assert http.read(running).status == 200
        deadline = time.monotonic() + 20
        while sum(row.calls for row in rows()) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(up.requests) == 1
        assert {(row.status, row.input_tokens) for row in rows()} == {(200, 11), (0, None)}
        with http.connect(home) as half_closed:
            half_closed.sendall(http.request(body=body))
            half_closed.shutdown(socket.SHUT_WR)
            assert http.read(half_closed).status == 200
