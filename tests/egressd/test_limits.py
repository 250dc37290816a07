"""Two hundred calls at once below a limit: not one token over it, and nearly all of it used."""

import time
from pathlib import Path

import pytest

from tests.egressd.limits import measure

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
    assert {row.status for row in found.rows} == {200, 403}, told
    assert found.statuses.keys() <= {200, 403}, told
