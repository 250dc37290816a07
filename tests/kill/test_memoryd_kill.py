"""Fifty kills of memoryd under writers and a hand; `make bench` makes a thousand."""

import pytest

from tests.kill.memoryd_kill import run


@pytest.mark.kill
@pytest.mark.timeout(180)
def test_no_acknowledged_write_is_lost_by_fifty_kills() -> None:
    outcome = run(50)
    assert outcome.acknowledged > 10
    assert outcome.by_owner > 5
