"""Hellos as real clients sent them. `tests/peers` has Chromium send one now, and asks the same of it."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd.wire.hello import HelloReader, Refused, check

CHROMIUM = bytes.fromhex((Path(__file__).parents[2] / "golden/hello-chromium.hex").read_text())
"""Chromium 156 for api.example.com: nineteen extensions, one of them a GREASE of Encrypted Client Hello."""


@given(st.lists(st.integers(min_value=0, max_value=len(CHROMIUM)), max_size=8))
def test_a_browser_that_may_hide_another_name_is_refused(places: list[int]) -> None:
    reader, found = HelloReader(), None
    for start, end in itertools.pairwise([0, *sorted(places), len(CHROMIUM)]):
        assert found is None or start == end
        found = found or reader.feed(CHROMIUM[start:end])
    assert found is not None
    assert (found.name, found.ech, found.alpn) == ("api.example.com", True, (b"h2", b"http/1.1"))
    with pytest.raises(Refused) as refused:
        check(found, "api.example.com")
    assert refused.value.reason == "ech"
