"""What the owner may write for a time, and what he is told otherwise."""

from datetime import UTC, datetime

import pytest
import typer

from bxctl.options import since, since_at

NOW = datetime(2026, 9, 24, 21, 2, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("today", "2026-09-24T00:00:00Z"),
        ("yesterday", "2026-09-23T00:00:00Z"),
        ("90m", "2026-09-24T19:32:03Z"),
        ("24h", "2026-09-23T21:02:03Z"),
        ("7d", "2026-09-17T21:02:03Z"),
        ("2w", "2026-09-10T21:02:03Z"),
        ("0d", "2026-09-24T21:02:03Z"),
        ("2026-09", "2026-09-01T00:00:00Z"),
        ("2026-09-20", "2026-09-20T00:00:00Z"),
        (" 2026-09-20 ", "2026-09-20T00:00:00Z"),
        ("2026-09-20T14:02:03Z", "2026-09-20T14:02:03Z"),
        ("2026-09-20t14:02:03z", "2026-09-20T14:02:03Z"),
        ("2026-09-20 14:02", "2026-09-20T14:02:00Z"),
        ("2026-09-20T14:02:03.5+02:00", "2026-09-20T12:02:03Z"),
    ],
)
def test_what_is_taken_for_a_time(said: str, meant: str) -> None:
    assert since_at(said, NOW) == meant


def test_none_is_none() -> None:
    assert since(None) is None


@pytest.mark.parametrize(
    "junk",
    [
        *("junk", "", " ", "7", "d", "-7d", "7 d", "7y", "1e3d", "٣d", "9999999d", "999999d", "999999w", "tomorrow"),
        *("2026", "2026-13", "2026-02-30", "20260920", "2026-W38-7", "0000-01", "0001-01-01T00:00+23:00"),
        *("2026-09-20T24:00Z", "2026-09-20T14", "2026-09-20T14:02:03+2", "14:02", "2026-09-20T14:02:03Z\n\x1b[2J"),
    ],
)
def test_what_is_none_is_told_what_is_taken(junk: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        since_at(junk, NOW)
    told = caught.value.message
    assert "is no time; say today, yesterday, 90m, 24h, 7d, 2w, 2026-09-24, 2026-09, or a time such as" in told
    assert told.isprintable()
