"""The forms of ids, checked when decoding."""

import msgspec
import pytest

from proto import ids
from proto.messages.memory import SessionUpdated


@pytest.mark.parametrize("good", ["mm-" + "a1" * 13, "chat-1789", "run-a", "chat-" + "x" * 48])
def test_a_session_id(good: str) -> None:
    assert ids.is_session_id(good)
    assert msgspec.convert({"kind": "session_updated", "session": good}, SessionUpdated).session == good


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "mm-short",
        "mm-" + "A1" * 13,
        "chat-",
        "chat-a/b",
        "chat-..",
        "chat-a\n",
        "run-" + "x" * 49,
        "x-1",
        " chat-a",
    ],
)
def test_no_session_id(bad: str) -> None:
    assert not ids.is_session_id(bad)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"kind": "session_updated", "session": bad}, SessionUpdated)


def test_edit_ids_grow_past_four_digits() -> None:
    assert ids.is_edit_id("2026-09-24-0001")
    assert ids.is_edit_id("2026-09-24-10000")
    assert not ids.is_edit_id("2026-09-24-001")
    assert not ids.is_edit_id("2026-09-24-0001\n")


def test_new_ids_have_the_form_that_is_decoded() -> None:
    assert ids.is_session_id(ids.new_chat_id("20260924"))
    assert msgspec.convert(ids.new_approval_id(), ids.ApprovalId)
