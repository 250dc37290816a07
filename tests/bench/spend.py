"""A thousand calls at once below a limit of spend, a third of them cut: what was given, of what was allowed."""

import time
from pathlib import Path

from tests.egressd.limits import measure as limits

CALLS = 1_000


def measure(home: Path) -> str:
    """The line of the report.

    Raises:
        AssertionError: a token was given above the limit, or less than 95 % of it was used.

    """
    seed = int(time.time())
    found = limits(home, CALLS, seed)
    assert 0.95 * found.limit <= found.given <= found.limit, f"seed {seed}: {found}"
    assert found.told == found.given, f"seed {seed}: {found}"
    return str(found)
