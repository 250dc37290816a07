"""What is read of a page: its text in order, where links lead, nothing that it hides; no page can stop the reader."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from egressd.page import html
from egressd.reader import MODULE, answered, question
from egressd.text import decode, plain
from proto.role.worker import Worker, WorkerLost

URL = "https://example.org/a/page"


def _text(page: str | bytes, charset: str | None = None) -> str:
    data = page.encode() if isinstance(page, str) else page
    return html(data, charset, URL, 200_000).text


def test_a_page_is_read() -> None:
    page = """<!doctype html><html><head><title>The  launch</title><style>p{}</style><script>evil()</script></head>
    <body><nav><a href="/home">Home</a></nav><h1>It moved</h1><p>The launch moved to
    <b>Thursday</b>, says <a href="note?x=1&amp;y">the note</a>.</p><ul><li>one</li><li>two</li></ul>
    <table><tr><td>a</td><td>b</td></tr><tr><td>c</td><td>d</td></tr></table>
    <pre>  x = 1
    y = 2</pre><!-- a comment --><img alt="a chart" src="c.png"><a href="#top">up</a><a href="mailto:x@y">mail</a>
    <p>end &amp; out</p></body></html>"""
    assert _text(page) == (
        "The launch\n\nHome (https://example.org/home)\n\n# It moved\n\n"
        "The launch moved to Thursday, says the note (https://example.org/a/note?x=1&y).\n\n- one\n\n- two\n\n"
        "a\tb\n\nc\td\n\nx = 1\n    y = 2\n[a chart]upmail\n\nend & out"
    )


@pytest.mark.parametrize(
    "hidden",
    ["<p hidden>X</p>", "<div style='DISPLAY : none'>X</div>", "<i style='visibility:hidden'>X</i>", "<script>X</script>",
     "<p aria-hidden='true'>X</p>", "<template>X</template>", "<noscript>X</noscript>", "<!--X-->", "<svg><text>X</text></svg>",
     "<![CDATA[X]]>", "<?X?>", "<style>X", "<textarea hidden>X</textarea>"],
)  # fmt: skip
def test_what_the_page_hides_is_left_out(hidden: str) -> None:
    assert _text(f"<p>seen</p>{hidden}") == "seen"


@pytest.mark.parametrize(
    ("page", "charset"),
    [
        ("<p>Grüße</p>".encode(), None),
        ("<p>Grüße</p>".encode("latin-1"), "ISO-8859-1"),
        (b"<meta charset='windows-1252'><p>" + "Grüße".encode("cp1252"), None),
        (b'<meta http-equiv=x content="text/html; charset=latin1"><p>' + "Grüße".encode("latin-1"), None),
        ("\ufeff<p>Grüße</p>".encode(), "latin-1"),
        (b"\xff\xfe" + "<p>Grüße</p>".encode("utf-16-le"), None),
        ("<p>Grüße</p>".encode(), "no-such-charset"),
        ("<p>Grüße</p>".encode(), "unicode_escape"),
        ("<p>Grüße</p>".encode(), "zlib"),
        ("<p>Grüße</p>".encode(), "utf-7"),
    ],
)
def test_charsets(page: bytes, charset: str | None) -> None:
    assert _text(page, charset) == "Grüße"


def test_bytes_that_are_wrong_become_marks() -> None:
    assert decode(b"a\xffb", "utf-8") == "a\ufffdb"
    assert plain(b"a\x00\x1b[31mb\r\nc\td", None, 100).text == "a[31mb\nc\td"


@given(st.text(max_size=80), st.integers(1, 60))
def test_a_text_is_cut_at_a_character_and_marked(text: str, limit: int) -> None:
    whole = plain(text.encode(), "utf-8", 10_000)
    cut = plain(text.encode(), "utf-8", limit)
    assert whole.text.startswith(cut.text)
    assert len(cut.text.encode()) <= limit
    assert cut.truncated == (cut.text != whole.text)


piece = st.sampled_from(
    ["<p>", "</p>", "<a href='/x'>", "</a>", "<b", "<!--", "-->", "<pre>", "</pre>", "&#0;", "&amp", "<td>", "</div>", "é", " ", "\n",
     "<script>", "</script>", "<a href='http://['>", "<![CDATA[", "<?", "<meta charset=x>", "<title>", "\x00", "]]>", "<li>"]
)  # fmt: skip


@given(st.lists(piece | st.text(max_size=5), max_size=40).map("".join))
@example("<a href='/x'><a href='/x'><p>\x1f")
def test_no_page_can_stop_the_reader(page: str) -> None:
    text = _text(page.encode("utf-8", "replace"))
    assert not re.search(r"\n{3}|[\x00-\x08\x0b-\x1f]", text)


def test_depth_is_no_danger() -> None:
    assert _text("<div>" * 10_000 + "deep") == "deep"


HOSTILE = [
    b"<!--", b"<!-->", b"<![CDATA[", b"<?", b"<!", b"<!DOCTYPE [", b"<", b"<a", b"<a ", b'<a b="', b"<a b='>", b"</a", b"</a>", b"<a>",
    b"<p hidden>", b"<script>", b"</script", b"<title>", b"<textarea>", b"&", b"&lt", b"&#", b"&#x", b"9", b"&#x41;", b"=", b"'\"", b"/",
    b" ", b"\n", b"<p style=display", b"<meta charset=", b"<pre>", b"<a href=//[>", b"<a href=x>",
]  # fmt: skip


@pytest.mark.parametrize("start", [b"", b"<a ", b"<script>", b"<title>", b"<p x='"])
def test_what_is_begun_and_never_ended_is_read(start: bytes) -> None:
    for hostile in HOSTILE:
        html(start + hostile * (30_000 // len(hostile)) + b">", None, URL, 200_000)


async def _in_a_worker(page: bytes) -> str | None:
    """The text that a worker reads, None when it ended over it; there is no process left."""
    worker = await Worker.start(MODULE)
    try:
        return answered(await worker.ask(question(page, None, URL, 200_000), 30)).text
    except WorkerLost:
        return None
    finally:
        await worker.end()
        assert not Path(f"/proc/{worker.pid}").exists()


LARGE = {
    "comments": b"<!--" * 500_000,
    "formatting": b"<b>" * 50_000,
    "links": b"<a href=x>" * 50_000,
    "tables": b"<table>" * 20_000,
    "one attribute": b"<p a='" + b"x" * 2_000_000 + b"'>",
    "most memory": b"<b a>" * 100_000,
}


@pytest.mark.anyio
@pytest.mark.parametrize("page", LARGE.values(), ids=LARGE)
async def test_a_large_page_is_read_by_a_worker(page: bytes) -> None:
    assert await _in_a_worker(page) is not None


ENDLESS = {
    "attributes": b"<p " + b"".join(b"a%d=b " % number for number in range(200_000)) + b">",
    "depth": b"<div>" * 400_000,
    "clones": b"".join(b"<p><b a%d>x" % number for number in range(100_000)),
}


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("page", ENDLESS.values(), ids=ENDLESS)
async def test_a_page_made_to_take_long_ends_its_worker_alone(page: bytes) -> None:
    assert await _in_a_worker(page) is None


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("a < b &amp; c<5", "a < b & c<5"),
        ("<A HREF='x?a=1&amp;b'  title=\"a > b\">t</A >", "t (https://example.org/a/x?a=1&b)"),
        ("a<!-- <p>b --!>c<!-->d<!--e", "acd"),
        ("<script>a='<p>'</scripty></SCRIPT >b", "b"),
        ("<title>a <b> &lt;</title>", "a <b> <"),
        ("<textarea>a<p>", "a<p>"),
        ("a<p title='x>b", "a"),
        ("a<b it's>b", "ab"),
        ("&#65;&#x42&eacute;&nosuch;&#0;", "AB\u00e9&nosuch;\ufffd"),
        ("<title>t</title><svg><title>x</title></svg>a", "t\n\na"),
    ],
)
def test_tags_and_texts_are_what_a_browser_reads(page: str, text: str) -> None:
    assert _text(page) == text


def test_the_head_may_be_left_open() -> None:
    assert _text("<html><head><title>t</title><style>x</style><body><p>seen") == "t\n\nseen"


def test_a_text_that_is_long_enough_ends_the_reading() -> None:
    found = html(b"<p>" + b"word " * 1_000 + b"<b>" * 300_000, None, URL, 100)
    assert (found.text, found.truncated) == ("word " * 20, True)
