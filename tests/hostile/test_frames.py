"""2,000 hostile frames for each framed socket: no crash, no growth, the next good request is answered."""

from pathlib import Path

import pytest

from tests.e2e.box import DAEMONS
from tests.hostile.frames import alone, attack_daemon


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("daemon", DAEMONS)
def test_hostile_frames_cost_a_daemon_nothing(home: Path, daemon: str) -> None:
    with alone(home, daemon) as box:
        assert attack_daemon(box, daemon, 2_000, seed=20260924)
