import pytest

from memoryd.index.dates import Period, period, within


@pytest.mark.parametrize(
    ("query", "year", "month"),
    [
        ("what did Ada paint in July 2023?", "2023", "07"),
        ("where did we go in may", None, "05"),
        ("the talk on May 8th", None, "05"),
        ("the talk on 8 May, 2023", "2023", "05"),
        ("what happened on 2024-11-03", "2024", "11"),
        ("plans for 2025", "2025", None),
        ("DECEMBER party", None, "12"),
        ("since March", None, "03"),
    ],
)
def test_the_period_of(query: str, year: str | None, month: str | None) -> None:
    assert period(query) == Period(year=year, month=month)


@pytest.mark.parametrize("query", ["may I come?", "they march at noon", "order 88213", "", "in 12023"])
def test_no_period(query: str) -> None:
    assert period(query) is None


def test_within() -> None:
    assert within("2023-07-09T10:00:00Z", Period(year="2023", month="07"))
    assert within("2023-07-09T10:00:00Z", Period(year=None, month="07"))
    assert within("2023-07-09T10:00:00Z", Period(year="2023", month=None))
    assert not within("2023-07-09T10:00:00Z", Period(year="2024", month="07"))
    assert not within("2023-07-09T10:00:00Z", Period(year="2023", month="08"))
