"""Fifty kills of brokerd under concurrent clients; `make bench` makes a thousand."""

import pytest

from tests.kill.brokerd_kill import run


@pytest.mark.kill
@pytest.mark.timeout(180)
def test_no_label_falls_by_fifty_kills() -> None:
    outcome = run(50)
    assert outcome.acknowledged > 200
    assert outcome.calls > 50
    assert outcome.sessions > 10
