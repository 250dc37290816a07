"""URLs are read in one way: what is taken, what is refused, and that the one form is read as itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.urls import Url, join_url, parse_url


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://example.org", Url("https", "example.org", 443, "/")),
        ("HTTPS://Example.ORG:443/a?b#c", Url("https", "example.org", 443, "/a?b")),
        ("https://example.org.?q=1", Url("https", "example.org", 443, "/?q=1")),
        ("http://127.0.0.1:8080/x", Url("http", "127.0.0.1", 8080, "/x")),
        ("https://[2001:DB8::0:1]:8443/", Url("https", "2001:db8::1", 8443, "/")),
        ("https://bücher.example/ü", Url("https", "xn--bcher-kva.example", 443, "/%C3%BC")),
        ("https://１２７.0.0.1/", Url("https", "127.0.0.1", 443, "/")),
        ("https://example.org/a%2fb", Url("https", "example.org", 443, "/a%2fb")),
    ],
)
def test_a_url_is_read(text: str, url: Url) -> None:
    assert parse_url(text) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.org",
        "ftp://example.org/",
        "file:///etc/passwd",
        "https:///x",
        "https://user@example.org/",
        "https://user:pass@example.org/",
        "https://example.org@evil.example/",
        "https://good.example\\@evil.example/",
        "https://good.example\\.evil.example/",
        "https://exa mple.org/",
        " https://example.org/",
        "https://example.org/\r\nHost: evil",
        "https://example.org\t/",
        "https://example.org:0/",
        "https://example.org:65536/",
        "https://example.org:+443/",
        "https://example.org:/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://127.1/",
        "https://127.0.0.01/",
        "https://a.0x/",
        "https://[::1/",
        "https://[fe80::1%25eth0]/",
        "https://[127.0.0.1]/",
        "https://exa%6dple.org/",
        "https://a_b.example/",
        "https://-a.example/",
        "https://a..b/",
        "https://*.example.org/",
        "https://" + "a" * 64 + ".example/",
        "https://example.org/" + "a" * 9000,
        "https://example.org/\udc80",
        "https://e\u200bxample.org\u3000/",
    ],
)
def test_a_url_is_refused(text: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_url(text)
    assert "URL" in str(caught.value)


@given(st.text(max_size=60) | st.from_regex(r"https?://[a-z0-9.:\[\]@\\%-]{0,30}/?[ -~]{0,20}", fullmatch=True))
def test_the_one_form_is_read_as_itself(text: str) -> None:
    try:
        url = parse_url(text)
    except ValueError:
        return
    assert str(url).isascii()
    assert parse_url(str(url)) == url


@pytest.mark.parametrize(
    ("location", "joined"),
    [
        ("/b", "https://example.org:8443/b"),
        ("b?c", "https://example.org:8443/a/b?c"),
        ("//other.example/x", "https://other.example/x"),
        ("http://127.0.0.1/", "http://127.0.0.1/"),
        ("?q", "https://example.org:8443/a/page?q"),
    ],
)
def test_a_location_is_joined(location: str, joined: str) -> None:
    assert str(join_url(parse_url("https://example.org:8443/a/page"), location)) == joined


@pytest.mark.parametrize(
    "location", ["javascript:alert(1)", "file:///etc/passwd", "https://u@example.org/", "http://[", "//a\u2100b/"]
)
def test_a_location_that_cannot_be_asked_for_is_refused(location: str) -> None:
    with pytest.raises(ValueError, match="URL") as caught:
        join_url(parse_url("https://example.org/"), location)
    assert "\u2100" not in str(caught.value)
