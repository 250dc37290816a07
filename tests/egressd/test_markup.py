"""Tags and texts: what a browser would read, and nothing raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egressd.markup import End, Start, tokens


def _start(name: str, *, empty: bool = False, **attributes: str) -> Start:
    return Start(name, attributes, empty)


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ("a < b &amp; c<5", ["a < b & c<5"]),
        ("<A HREF='x?a=1&amp;b'  title=\"a > b\" hidden>t</A >", [_start("a", href="x?a=1&b", title="a > b", hidden=""), "t", End("a")]),
        ("<a b=1 b=2>", [_start("a", b="1")]),
        ("<br><br/><p/><a href=/x/>", [_start("br", empty=True), _start("br", empty=True), _start("p", empty=True), _start("a", href="/x/")]),
        ("<a href='x'/>", [_start("a", empty=True, href="x")]),
        ("a<!-- <p>b --!>c<!-->d<!--e", ["a", "c", "d"]),
        ("a<![CDATA[ <p> ]]>b<?php > c<!doctype html>d</ x>e", ["a", "b", " c", "d", "e"]),
        ("<script>a='<p>'</scripty></SCRIPT >b", [_start("script"), End("script"), "b"]),
        ("<title>a <b> &lt;</title>", [_start("title"), "a <b> <", End("title")]),
        ("<textarea>a<p>", [_start("textarea"), "a<p>"]),
        ("a<p title='x>b", ["a"]),
        ("a<p it's>b", ["a", Start("p", {"it's": ""}, empty=False), "b"]),
        ("&#65;&#x42&eacute;&nosuch;&#99999999;&#0;", ["AB\u00e9&nosuch;&#99999999;\ufffd"]),
        ("<script/>a", [_start("script", empty=True), "a"]),
    ],
)  # fmt: skip
def test_tags_and_texts(page: str, found: list[object]) -> None:
    assert list(tokens(page)) == found


@given(st.text(alphabet="<>/!-?&#;x='\" \nascriptCDATA[]", max_size=200))
def test_nothing_raises_and_nothing_is_made_up(page: str) -> None:
    for token in tokens(page):
        if isinstance(token, str) and "&" not in page:
            assert token in page
