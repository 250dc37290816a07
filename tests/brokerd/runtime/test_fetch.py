"""A page as a result: one line that says what it is, and a text that fits a frame."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from brokerd.grants.grant import Grant, GrantFile
from brokerd.runtime.composite import combined
from brokerd.runtime.fetch import page_text
from brokerd.runtime.outcome import Done
from proto import frame
from proto.labels import PRIVATE, DataClass, Label, covers, join
from proto.messages.broker import ToolResponse
from proto.messages.egress import Fetched

_labels = st.builds(Label, class_=st.sampled_from(DataClass), untrusted=st.booleans())


def _page(**more: Any) -> Fetched:
    fields: dict[str, Any] = {
        "url": "https://example.org/",
        "status": 200,
        "content_type": "text/plain",
        "text": "x",
        "truncated": False,
    }
    return Fetched(**{**fields, **more})


def test_the_first_line_says_what_it_is() -> None:
    assert page_text(_page()) == "https://example.org/ · 200 · text/plain\n\nx"
    assert page_text(_page(truncated=True, status=404)) == "https://example.org/ · 404 · text/plain · cut\n\nx"
    assert page_text(_page(content_type="")) == "https://example.org/ · 200\n\nx"


def test_what_a_server_says_of_itself_begins_no_line() -> None:
    assert page_text(_page(content_type="a\nb\u202e")) == "https://example.org/ · 200 · a\\nb\\u{202e}\n\nx"


@given(st.text(min_size=1, max_size=4), st.integers(1, 400_000))
def test_any_page_fits_a_frame(text: str, times: int) -> None:
    whole = page_text(_page(text=text * times))
    response = ToolResponse(call="c", ok=True, text=whole, class_=DataClass.PRIVATE, untrusted=True)
    assert len(frame.pack(response)) < frame.MAX_FRAME
    head, _, body = whole.partition("\n\n")
    assert (text * times).startswith(body)
    assert head.endswith(" · cut") is (body != text * times)


@given(_labels, st.none() | _labels, st.booleans())
def test_the_label_of_a_result_is_the_join_of_the_grants_and_the_runtimes(
    granted: Label, own: Label | None, reached: bool
) -> None:
    says = GrantFile(tool="recall", mode="auto", result_class=granted.class_, untrusted=granted.untrusted)
    found = combined(Grant("g", "", says), Done(ok=True, text="", label=own, granted=reached))
    expected = granted if reached else PRIVATE
    assert found == (join(expected, own) if own else expected)
    assert own is None or covers(found, own)
