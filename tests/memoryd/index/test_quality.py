"""What the index promises of its ranking, on questions that nothing was chosen on."""

import statistics

import pytest

from tests.bench.recall import quality


@pytest.mark.slow
def test_recall_finds_nine_points_more_than_the_letter() -> None:
    found = quality("held", "owner and assistant")
    assert len(found) >= 300
    by_letter = 100 * statistics.mean(each.by_letter for each in found)
    by_recall = 100 * statistics.mean(each.by_recall for each in found)
    assert by_recall - by_letter >= 9
