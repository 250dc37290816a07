"""A time is written in one form, whatever its zone and its fraction of a second, and is read back to the second."""

import re
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from proto.role.clock import parse, stamp

_ZONES = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
_TIMES = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=_ZONES)  # noqa: DTZ001  (the zone is given)


@given(_TIMES)
def test_a_time_is_written_in_utc_and_whole_seconds(time: datetime) -> None:
    text = stamp(time)
    assert re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", text)
    assert parse(text) == time.astimezone(UTC).replace(microsecond=0)
