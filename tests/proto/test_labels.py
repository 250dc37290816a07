"""The lattice of labels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.labels import PUBLIC, DataClass, Label, covers, join, parse_class

labels = st.builds(Label, class_=st.sampled_from(DataClass), untrusted=st.booleans())


@given(labels, labels, labels)
def test_join_is_a_semilattice(a: Label, b: Label, c: Label) -> None:
    assert join(a, b) == join(b, a)
    assert join(a, join(b, c)) == join(join(a, b), c)
    assert join(a, a) == a
    assert join(PUBLIC, a) == a


@given(labels, labels)
def test_a_join_is_never_laxer_than_either_side(a: Label, b: Label) -> None:
    joined = join(a, b)
    assert covers(joined, a)
    assert covers(joined, b)
    assert joined.class_.rank == max(a.class_.rank, b.class_.rank)


def test_the_names_of_the_record_are_taken_on_input_and_never_written() -> None:
    assert parse_class("internal") is DataClass.PRIVATE
    assert parse_class("restricted") is DataClass.SECRET
    assert [c.value for c in DataClass] == ["public", "private", "secret"]


def test_another_word_is_no_class() -> None:
    with pytest.raises(ValueError, match="public, private or secret"):
        parse_class("Secret")


def test_a_label_reads_as_a_header_does() -> None:
    assert str(Label(class_=DataClass.PRIVATE, untrusted=True)) == "private · untrusted"
    assert str(Label(class_=DataClass.SECRET, untrusted=False)) == "secret"
