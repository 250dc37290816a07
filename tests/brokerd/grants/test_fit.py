"""Hosts, paths and patterns: what a grant covers, and nothing beside it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.grants.fit import Constraints, Subject, fit, is_loopback, subject_of
from proto.tools import CommandArguments, FetchArguments, PathArguments, RecallArguments
from proto.urls import parse_url


def _fit(hosts: tuple[str, ...], url: str, *, loopback: bool = False) -> tuple[bool, bool, bool]:
    found = fit(Constraints(hosts=hosts, loopback=loopback), Subject(url=parse_url(url)))
    return found.scheme, found.host, found.host_exact


@pytest.mark.parametrize(
    ("hosts", "url", "host", "exact"),
    [
        (("example.org",), "https://example.org/", True, True),
        (("example.org",), "https://EXAMPLE.org./", True, True),
        (("example.org",), "https://example.org:8443/", True, True),
        (("example.org",), "https://www.example.org/", False, False),
        (("example.org",), "https://example.org.evil.example/", False, False),
        (("example.org",), "https://notexample.org/", False, False),
        (("*.example.org",), "https://www.example.org/", True, False),
        (("*.example.org",), "https://a.b.example.org/", True, False),
        (("*.example.org",), "https://example.org/", False, False),
        (("*.example.org",), "https://badexample.org/", False, False),
        (("*",), "https://anything.example/", True, False),
        (("*", "example.org"), "https://example.org/", True, True),
        ((), "https://anything.example/", True, False),
        (("10.0.0.1",), "https://10.0.0.1/", True, True),
        (("*.0.0.1",), "https://10.0.0.1/", False, False),
        (("::1",), "https://[0:0::1]/", True, True),
        (("[::1]",), "https://[::1]/", True, True),
    ],
)
def test_hosts(hosts: tuple[str, ...], url: str, host: bool, exact: bool) -> None:
    assert _fit(hosts, url)[1:] == (host, exact)


@pytest.mark.parametrize(
    ("url", "loopback", "scheme"),
    [
        ("https://example.org/", False, True),
        ("http://example.org/", False, False),
        ("http://example.org/", True, False),
        ("http://127.0.0.1:8000/", False, False),
        ("http://127.0.0.1:8000/", True, True),
        ("http://127.9.9.9/", True, True),
        ("http://[::1]:80/", True, True),
        ("http://localhost/", True, True),
        ("http://10.0.0.1/", True, False),
        ("http://localhost.example.org/", True, False),
    ],
)
def test_plain_http_only_to_loopback_and_only_where_the_grant_says_so(url: str, loopback: bool, scheme: bool) -> None:
    assert _fit(("*",), url, loopback=loopback)[0] is scheme


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("/srv/notes/*", "/srv/notes/a.txt", True),
        ("/srv/notes/*", "/srv/notes/a/b.txt", False),
        ("/srv/notes/**", "/srv/notes/a/b.txt", True),
        ("/srv/notes/**", "/srv/notes-secret/a", False),
        ("/srv/?", "/srv/a", True),
        ("/srv/?", "/srv//", False),
        ("/srv/a.b", "/srv/axb", False),
        ("/srv/a", "/srv/a\n", False),
    ],
)
def test_paths(pattern: str, path: str, covered: bool) -> None:
    assert fit(Constraints(paths=(pattern,)), Subject(path=path)).path is covered


@pytest.mark.parametrize(
    ("pattern", "command", "covered"),
    [
        ("git log *", "git log --oneline", True),
        ("git log *", "git log; rm -rf /", False),
        ("git log *", "git log $(rm x)", False),
        ("git log *", "git log\nrm x", False),
        ("git log *", "git log x | sh", False),
        ("ls", "ls", True),
        ("ls", "ls -l", False),
        ("a | b", "a | b", True),
    ],
)
def test_patterns(pattern: str, command: str, covered: bool) -> None:
    assert fit(Constraints(patterns=(pattern,)), Subject(command=command)).pattern is covered


@pytest.mark.parametrize("path", ["a", "", "/a/../b", "/a/./b", "/a\0", "//a/../b"])
def test_a_path_that_leads_elsewhere_is_no_argument(path: str) -> None:
    with pytest.raises(ValueError, match="a path"):
        subject_of(PathArguments(path=path))


def test_what_a_call_reaches() -> None:
    assert subject_of(PathArguments(path="/a/")).path == "/a"
    assert subject_of(CommandArguments(command="ls")).command == "ls"
    assert subject_of(RecallArguments(query="x")) == Subject()
    url = subject_of(FetchArguments(url="https://example.org/x")).url
    assert url is not None
    assert url.host == "example.org"


@given(
    st.sampled_from(["example.org", "*.example.org", "*", "10.0.0.1"]),
    st.text(alphabet="abe.*0127:-", min_size=1, max_size=20),
)
def test_no_host_but_those_named_is_covered(pattern: str, host: str) -> None:
    try:
        url = parse_url(f"https://{host}/")
    except ValueError:
        return
    covered = fit(Constraints(hosts=(pattern,)), Subject(url=url)).host
    expected = pattern == "*" or url.host == pattern or (pattern[0] == "*" and url.host.endswith(pattern[1:]))
    assert covered == expected


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "::1"])
def test_loopback(host: str) -> None:
    assert is_loopback(host)
    assert not is_loopback(f"{host}.example.org")
