"""The list in memory: newest first, each once, whatever the pages; and what is due."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memoryd.kept.item import Where
from memoryd.kept.listing import Listing
from proto.messages.memory import KeptItem
from tests.memoryd.kept.items import item

ITEMS = st.lists(
    st.builds(
        lambda minute, session, call, days, erased: item(
            f"c{call}",
            session=f"chat-{session}",
            time=f"2026-09-24T21:{minute:02}:00Z",
            drop_after=f"2026-10-{days:02}T21:{minute:02}:00Z",
            erased=erased,
        ),
        st.integers(0, 5), st.sampled_from("ab"), st.integers(0, 9), st.integers(1, 9), st.sampled_from([None, "owner"]),
    ),
    max_size=30,
    unique_by=lambda one: (one.session, one.call),
)  # fmt: skip


def _where(one: KeptItem) -> Where:
    return Where("contexts", one.domain, one.session, one.call)


def _order(one: KeptItem) -> tuple[str, str, str]:
    return one.time, one.session, one.call


@settings(max_examples=60)
@pytest.mark.measured
@given(ITEMS, st.integers(1, 5), st.sampled_from([None, "chat-a"]), st.booleans())
def test_pages_give_every_item_once_newest_first(
    items: list[KeptItem], page: int, session: str | None, at_once: bool
) -> None:
    listing = Listing()
    if at_once:
        listing.add_all(items[::2])
        listing.add_all(items)
    else:
        for one in [*items, *items]:
            listing.add(one)
    by_place = {_where(one): one for one in items}
    found: list[KeptItem] = []
    before = None
    while places := list(listing.newest("contexts", session, before))[:page]:
        found += [by_place[where] for where in places]
        before = " ".join(_order(found[-1]))
    expected = [one for one in items if session in (None, one.session)]
    assert found == sorted(expected, key=_order, reverse=True)
    assert list(listing.newest("transcripts", None, None)) == []


@given(ITEMS, st.integers(0, 10))
def test_what_is_due_is_given_once(items: list[KeptItem], day: int) -> None:
    listing = Listing()
    listing.add_all(items)
    now = f"2026-10-{day:02}T21:03:00Z"
    due = listing.take_due(now)
    assert set(due) == {_where(one) for one in items if one.erased is None and one.drop_after <= now}
    assert listing.take_due(now) == []
    listing.put_back(due, now)
    assert sorted(listing.take_due(now)) == sorted(due)
    assert len(listing.take_due("9999-01-01T00:00:00Z")) == len(items) - len(due) - sum(
        one.erased is not None for one in items
    )


def test_a_time_alone_goes_on_before_that_second() -> None:
    listing = Listing()
    for call, second in (("c1", 1), ("c2", 2), ("c3", 2)):
        listing.add(item(call, time=f"2026-09-24T21:02:0{second}Z"))
    assert [where.call for where in listing.newest("contexts", None, "2026-09-24T21:02:02Z")] == ["c1"]
