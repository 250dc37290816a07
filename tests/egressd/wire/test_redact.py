"""A key never passes, wherever a stream is cut; a stream without it passes as it is."""

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from egressd.wire.redact import Redactor

SECRET = b"aabaabaac"
OTHER = b"aabaabaacx"
"""A secret that begins with the other."""


def _pass(redactor: Redactor, body: bytes, cuts: list[int]) -> bytes:
    places = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    return b"".join(redactor.feed(body[a:b]) for a, b in itertools.pairwise(places)) + redactor.end()


bodies = st.lists(st.sampled_from([b"a", b"b", b"aab", b"aabaabaac", b"c", b"x"]), max_size=40).map(b"".join)


@given(bodies, st.lists(st.integers(0, 1000), max_size=20))
def test_the_key_never_passes_and_every_length_stays(body: bytes, cuts: list[int]) -> None:
    passed = _pass(Redactor(SECRET, OTHER), body, cuts)
    assert SECRET not in passed
    assert len(passed) == len(body)
    assert passed == re.sub(OTHER + b"|" + SECRET, lambda found: b"*" * len(found[0]), body)


@given(st.binary(max_size=300), st.lists(st.integers(0, 1000), max_size=20))
def test_without_a_key_every_byte_passes_at_once(body: bytes, cuts: list[int]) -> None:
    assert _pass(Redactor(), body, cuts) == body
    assert Redactor(b"short").feed(body) == body
    assert Redactor(b"sk-0123456789").feed(b"data: s\n\n") == b"data: s\n\n"


def test_a_key_is_known_as_json_and_as_a_url_may_write_it() -> None:
    redactor = Redactor(b"AbC/d+ef==")
    for written in (b"AbC/d+ef==", b"AbC\\/d+ef==", b"AbC%2Fd%2Bef%3D%3D"):
        assert redactor.whole(b'{"echo": "' + written + b'"}') == b'{"echo": "' + b"*" * len(written) + b'"}'
