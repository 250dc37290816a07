"""2,000 malformed requests for egressd's HTTP: no crash, no growth, the next good request is answered."""

from pathlib import Path

import pytest

from tests.hostile.http_egress import attack_egressd, attacked


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_malformed_http_costs_egressd_nothing(home: Path) -> None:
    with attacked(home) as (box, up):
        assert attack_egressd(box, up, 2_000, seed=20260924)
