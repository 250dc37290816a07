"""The owner's grants: their files, what is refused in them and how it is said, and which one is chosen."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.grants.builtin import BUILT_IN
from brokerd.grants.fit import Subject
from brokerd.grants.grant import BUILT_IN_REFUSAL, GrantProblem, parse_grant
from brokerd.grants.shelf import GrantSet, Shelf, choose, grant_set
from proto.labels import DataClass, Label
from proto.urls import parse_url

HASHES = {
    "builtin-recall": "7569116a34c006d3a528052fc5fa3ab678c507d4cc39532bb1b1d6ef82f1b2c3",
    "builtin-memory": "2cc4df38a2466af330f24614e437f33cd6e6a721d75e5ce2e68a68dec2305da5",
}
WEB = 'tool = "http_fetch"\nmode = "auto"\nhosts = ["example.org"]\n'


def test_the_built_in_grants_have_the_hashes_of_the_contract() -> None:
    assert {grant.id: grant.sha256 for grant in BUILT_IN} == HASHES


def test_the_built_in_grants_are_auto_up_to_secret_and_give_private_trusted_results() -> None:
    for grant in BUILT_IN:
        assert (grant.says.mode, grant.says.max_taint) == ("auto", DataClass.SECRET)
        assert grant.result_label == Label(class_=DataClass.PRIVATE, untrusted=False)
        assert grant.says.hosts == grant.says.paths == grant.says.patterns == []


def test_an_empty_folder_has_the_built_in_grants_and_lists_none(tmp_path: Path) -> None:
    (tmp_path / "empty/grants").mkdir(parents=True)
    for home in (tmp_path / "absent", tmp_path / "empty"):
        grants = Shelf(home).now()
        assert grants == GrantSet()
        assert [grant.id for tool in ("recall", "memory") for grant in grants.matching(tool)] == list(HASHES)
        assert grants.grants == ()


@pytest.mark.parametrize(
    "data",
    [
        b"a=" + b"[" * 100_000,
        b"#" * (64 * 1024 + 1),
        b"\xff",
        b"tool = " + b"9" * 10_000,
        b"\xef\xbb\xbf" + WEB.encode(),
    ],
    ids=["nested", "long", "no text", "a number", "a mark"],
)
def test_a_file_that_cannot_be_used_closes_and_stays_closed(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "grants").mkdir()
    (tmp_path / "grants/web.toml").write_text(WEB)
    shelf = Shelf(tmp_path)
    assert shelf.now().problems == ()
    (tmp_path / "grants/bad.toml").write_bytes(data)
    os.utime(tmp_path / "grants/bad.toml", (1, 1))  # long settled
    for _ in range(3):
        (problem,) = shelf.now().problems
        assert problem.startswith("grants/bad.toml: ")


def test_whatever_is_raised_in_reading_a_grant_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "grants").mkdir()
    (tmp_path / "grants/web.toml").write_text(WEB)
    shelf = Shelf(tmp_path)
    assert shelf.now().problems == ()

    def fail(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr("brokerd.grants.shelf.parse_grant", fail)
    (tmp_path / "grants/more.toml").write_text(WEB)
    for _ in range(2):
        assert shelf.now().problems[0] == "grants/more.toml: cannot be read: RecursionError"


def test_a_grant_that_denies_does_so_whatever_the_scheme() -> None:
    deny = parse_grant("no", b'tool = "http_fetch"\nmode = "deny"\nhosts = ["localhost"]\n', "no")
    auto = parse_grant("yes", WEB.replace("example.org", "localhost").encode() + b"loopback = true\n", "yes")
    for scheme in ("http", "https"):
        chosen = choose(
            (auto, deny), Subject(url=parse_url(f"{scheme}://localhost:3000/")), Label(DataClass.PUBLIC, False)
        )
        assert chosen is not None
        assert chosen.grant.id == "no"


@pytest.mark.parametrize("tool", ["recall", "memory"])
@pytest.mark.parametrize("mode", ["auto", "ask", "deny"])
def test_a_file_for_recall_or_memory_is_refused_with_the_fixed_sentence(tool: str, mode: str) -> None:
    text = f'mode = "{mode}"\ntool = "{tool}"\n'
    grants = grant_set({"mine.toml": text.encode()})
    assert grants.problems == (f"grants/mine.toml, line 2: tool: {BUILT_IN_REFUSAL}",)
    assert BUILT_IN_REFUSAL == "the policy of recall and memory is built in; remove this grant"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "grants/web.toml: the file: Object missing required field `tool`"),
        ('tool = "http_fetch"\n', "grants/web.toml: the file: Object missing required field `mode`"),
        (WEB + "colour = 1\n", "grants/web.toml, line 4: colour: unknown key"),
        (WEB + 'max_taint = "top"\n', "grants/web.toml, line 4: max_taint: Invalid enum value 'top'"),
        (WEB.replace("auto", "yes"), "grants/web.toml, line 2: mode: Invalid enum value 'yes'"),
        (WEB + "loopback = 1\n", "grants/web.toml, line 4: loopback: Expected `bool`, got `int`"),
        ("tool = [\n", "grants/web.toml: not TOML: "),
        ('tool = "fetch"\nmode = "deny"\n', "grants/web.toml, line 1: tool: there is no tool fetch"),
        (WEB + 'paths = ["/a"]\n', "grants/web.toml, line 4: paths: http_fetch has no paths"),
        ('tool = "run_command"\nmode = "ask"\nloopback = true\n', "grants/web.toml, line 3: loopback: run_command has no loopback"),
        ('tool = "http_fetch"\nmode = "auto"\n', "grants/web.toml, line 2: mode: a grant with mode auto must name its hosts"),
        (WEB.replace("example.org", "https://example.org"), "grants/web.toml, line 3: hosts: a host is a name, an address, *.name or *"),
        (WEB.replace("example.org", "Example.org"), "grants/web.toml, line 3: hosts: a host is written without scheme, port and path, in lower case"),
        (WEB.replace("example.org", "*.10.0.0.1"), "grants/web.toml, line 3: hosts: an address has no names under it"),
        (WEB.replace("example.org", "ex*.org"), "grants/web.toml, line 3: hosts: a host is a name, an address, *.name or *"),
        ('tool = "read_file"\nmode = "auto"\npaths = ["a/b"]\n', "grants/web.toml, line 3: paths: a path is absolute, without . and .."),
        ('tool = "read_file"\nmode = "auto"\npaths = ["/a/../b"]\n', "grants/web.toml, line 3: paths: a path is absolute, without . and .."),
        ('tool = "run_command"\nmode = "auto"\npatterns = [" "]\n', "grants/web.toml, line 3: patterns: a pattern is not empty"),
    ],
)  # fmt: skip
def test_a_problem_names_the_file_the_line_and_the_key(text: str, problem: str) -> None:
    (found,) = grant_set({"web.toml": text.encode()}).problems
    assert found.startswith(problem)


@pytest.mark.parametrize("name", ["builtin-recall.toml", "builtin-x.toml"])
def test_ids_that_begin_with_builtin_are_reserved(name: str) -> None:
    (found,) = grant_set({name: WEB.encode()}).problems
    assert found == f"grants/{name}: ids that begin with builtin- are reserved"


@pytest.mark.parametrize("stem", ["Web", "a b", "-a", "é", "x" * 64])
def test_a_file_is_named_plainly(stem: str) -> None:
    with pytest.raises(GrantProblem):
        parse_grant(stem, WEB.encode(), "x")


def test_what_is_not_utf_8_is_a_problem() -> None:
    assert grant_set({"web.toml": b"\xff"}).problems == ("grants/web.toml: not UTF-8",)


def test_one_bad_file_leaves_the_good_ones_listed_and_is_named() -> None:
    grants = grant_set({"a.toml": WEB.encode(), "b.toml": b"x"})
    assert [grant.id for grant in grants.grants] == ["a"]
    assert len(grants.problems) == 1


def test_other_names_of_a_class_are_accepted() -> None:
    text = WEB + 'max_taint = "restricted"\nresult_class = "internal"\n'
    says = parse_grant("web", text.encode(), "x").says
    assert (says.max_taint, says.result_class) == (DataClass.SECRET, DataClass.PRIVATE)


def test_a_change_is_seen_at_once_also_of_the_same_length(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    path = tmp_path / "grants/web.toml"
    path.parent.mkdir()
    for number in range(20):
        path.write_text(f'tool = "http_fetch"\nmode = "auto"\nhosts = ["{number:04}.org"]\n')
        (grant,) = shelf.now().grants
        assert grant.says.hosts == [f"{number:04}.org"]
    path.write_text("x")
    assert shelf.now().problems
    path.unlink()
    assert shelf.now() == GrantSet()


def test_what_cannot_be_listed_or_read_is_a_problem_and_hidden_files_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "grants"
    folder.mkdir()
    (folder / ".#web.toml").symlink_to("nobody@nowhere")
    (folder / "notes.txt").write_text("x")
    assert Shelf(tmp_path).now() == GrantSet()
    (folder / "gone.toml").symlink_to("nowhere")
    assert Shelf(tmp_path).now().problems == ("grants/gone.toml: cannot be read: No such file or directory",)
    other = tmp_path / "other"
    other.mkdir()
    (other / "grants").write_text("a file")
    assert Shelf(other).now().problems == ("grants/: cannot be read: Not a directory",)


def _web(host: str) -> Subject:
    return Subject(url=parse_url(f"https://{host}/"))


def _offered(files: dict[str, str], host: str, label: Label) -> str | None:
    grants = grant_set({f"{name}.toml": text.encode() for name, text in files.items()})
    assert not grants.problems, grants.problems
    chosen = choose(grants.matching("http_fetch"), _web(host), label)
    return chosen.grant.id if chosen else None


PRIVATE = Label(class_=DataClass.PRIVATE, untrusted=False)
UNTRUSTED = Label(class_=DataClass.PRIVATE, untrusted=True)
ASK = 'tool = "http_fetch"\nmode = "ask"\n'
DENY = 'tool = "http_fetch"\nmode = "deny"\nhosts = ["bad.org"]\n'
STAR = 'tool = "http_fetch"\nmode = "auto"\nhosts = ["*"]\n'


@pytest.mark.parametrize(
    ("files", "host", "label", "chosen"),
    [
        ({}, "example.org", PRIVATE, None),
        ({"ask": ASK, "web": WEB}, "example.org", PRIVATE, "web"),
        ({"ask": ASK, "web": WEB}, "other.org", PRIVATE, "ask"),
        ({"deny": DENY, "star": STAR}, "bad.org", PRIVATE, "deny"),
        ({"deny": DENY, "star": STAR}, "good.org", PRIVATE, "star"),
        ({"deny": DENY}, "good.org", PRIVATE, "deny"),
        ({"star": STAR, "web": WEB}, "example.org", UNTRUSTED, "web"),
        ({"a": WEB + 'max_taint = "public"\n', "b": ASK}, "example.org", PRIVATE, "b"),
    ],
)
def test_the_grant_that_is_chosen(files: dict[str, str], host: str, label: Label, chosen: str | None) -> None:
    assert _offered(files, host, label) == chosen


@given(st.text(max_size=30), st.sampled_from(["http_fetch", "read_file", "run_command"]))
def test_no_text_in_a_constraint_breaks_the_reader(text: str, tool: str) -> None:
    key = {"http_fetch": "hosts", "read_file": "paths", "run_command": "patterns"}[tool]
    data = f'tool = "{tool}"\nmode = "ask"\n{key} = [{json.dumps(text)}]\n'.encode(errors="surrogatepass")
    grants = grant_set({"x.toml": data})
    assert len(grants.grants) + len(grants.problems) == 1
