"""Five hundred calls on a bad day: nothing of them is left, and the books have each of them once."""

import time
from pathlib import Path

import pytest

from tests.egressd.soak import soak

CALLS = 500


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_nothing_of_a_bad_day_is_left(home: Path) -> None:
    seed = int(time.time())
    found = soak(home, CALLS, seed)
    told = f"seed {seed}: {found}"
    assert len(found["drawn"]) == 13, told
    assert {200, 429, 500, 502} <= set(found["statuses"]), told
    before, after = found["files"]
    assert after <= before, told
    assert found["open_rows"] == 0, told
    assert found["room"] != 403, told
    # A call is booked once, and none but those that came: the warm-up is 48.
    assert found["rows"] == found["ids"] == CALLS + 48, told
    assert "Traceback" not in found["log"], told
