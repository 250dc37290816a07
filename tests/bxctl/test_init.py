"""`bxctl init`: a new home that the daemons and proto can read; nothing written over; what it says."""

import getpass
import os
import stat
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bxctl import starter
from bxctl.providers import HOW_TO_NAME, PROVIDERS
from proto.labels import DataClass
from proto.role import config
from proto.rules import Rules, load_rules
from tests.bxctl import starters
from tests.bxctl.conftest import Bxctl

FILES = {
    "config/memoryd.toml",
    "config/brokerd.toml",
    "config/egressd.toml",
    "config/loopd.toml",
    "grants.toml",
    "grants/http_fetch.toml",
    "prices.toml",
    "credentials.env",
}


def _files(home: Path) -> dict[str, str]:
    return {str(path.relative_to(home)): path.read_text() for path in home.rglob("*") if path.is_file()}


def test_a_new_home_has_the_files_that_it_says(bxctl: Bxctl, home: Path) -> None:
    result = bxctl("init", "--owner", "Ada", "--domain", "dom-ada")
    assert result.code == 0
    assert set(_files(home)) == FILES
    assert (home / "policy").is_dir()
    for name in FILES:
        assert f"made {name} " in result.out
    assert result.out.startswith(f"home: {home}\n")
    assert result.out.endswith("start it with: bxctl run\n")


def test_nobody_else_can_reach_it(bxctl: Bxctl, home: Path) -> None:
    before = os.umask(0)
    try:
        assert bxctl("init").code == 0
    finally:
        os.umask(before)
    for path in [home, *home.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_nothing_is_written_over(bxctl: Bxctl, home: Path) -> None:
    (home / "config").mkdir()
    (home / "config" / "loopd.toml").write_text("# mine\n")
    (home / "grants.toml").symlink_to(home / "elsewhere")
    result = bxctl("init")
    assert result.code == 0
    assert (home / "config" / "loopd.toml").read_text() == "# mine\n"
    assert (home / "grants.toml").is_symlink()
    assert "kept config/loopd.toml" in result.out
    first = _files(home)
    assert bxctl("init", "--json").json == {"home": str(home), "made": [], "kept": [*_kept_order()]}
    assert _files(home) == first


@pytest.mark.parametrize("verb", ["init", "run"])
def test_a_folder_that_is_no_box_is_left_as_it_is(bxctl: Bxctl, home: Path, verb: str) -> None:
    (home / "notes.txt").write_text("mine")
    home.chmod(0o755)
    result = bxctl(verb)
    assert (result.code, result.out) == (1, "")
    assert f"{home} is no box, and not empty: it has notes.txt" in result.err
    assert _files(home) == {"notes.txt": "mine"}
    assert stat.S_IMODE(home.stat().st_mode) == 0o755


def test_a_home_that_a_daemon_has_made_is_taken(bxctl: Bxctl, home: Path) -> None:
    (home / "memory").mkdir()
    assert bxctl("init").code == 0


def _kept_order() -> list[str]:
    return [one.path for one in starter.starters("x", "dom-me")]


def test_the_owner_and_the_domain_are_in_it(bxctl: Bxctl, home: Path) -> None:
    bxctl("init", "--owner", "Ada\x1b[2J\nLovelace", "--domain", "dom-ada")
    assert (home / "grants.toml").read_text().startswith("# grants.toml: the rules of Ada\\u{1b}[2J\\nLovelace's box.")
    assert tomllib.loads((home / "config/loopd.toml").read_text())["session"] == {"domain": "dom-ada"}


def test_the_owner_is_the_user_if_nobody_is_named(bxctl: Bxctl, home: Path) -> None:
    bxctl("init")
    assert f"the rules of {getpass.getuser()}'s box" in (home / "grants.toml").read_text()


@pytest.mark.parametrize("domain", ["me", "dom-Me", 'dom-me"\n[turn]', ""])
def test_a_domain_that_is_none_is_refused_before_anything_is_made(bxctl: Bxctl, home: Path, domain: str) -> None:
    result = bxctl("init", "--domain", domain)
    assert result.code == 1
    assert "a domain is dom- and lower-case letters, digits, hyphens" in result.err
    assert _files(home) == {}


def test_destinations_are_the_embedded_model_and_the_known_providers(bxctl: Bxctl, home: Path) -> None:
    bxctl("init")
    found = load_rules(home).destinations
    logins = {"code-assist", "chatgpt", "github-copilot", "grok", "antigravity"}
    assert set(found) == {"local", "gemini"} | logins | {one.name for one in PROVIDERS}
    assert (found["local"].base_url, found["local"].ceiling) == ("unix:run/egress-model/model.sock", DataClass.SECRET)
    assert {one.ceiling for name, one in found.items() if name != "local"} == {DataClass.PRIVATE}
    assert all("openai-chat" in found[one.name].apis for one in PROVIDERS)
    assert all(found[name].tunnels and found[name].auths == ("subscription",) for name in logins)
    assert found["llmao"].auths == ("gateway",)


def test_the_commented_destinations_are_good_ones() -> None:
    text = starter.grants_toml("x")
    lines = text[text.index("# [destinations.gateway]") :].splitlines()
    settings = "\n".join(line.removeprefix("# ") for line in lines if "=" in line or line.startswith("# ["))
    rules = config.parse(settings, "grants.toml", Rules)
    assert (set(rules.destinations), set(rules.spend)) == ({"gateway", "llamacpp"}, {"gateway"})


@given(st.text(max_size=40))
def test_no_name_of_an_owner_spoils_grants_toml(owner: str) -> None:
    config.parse(starter.grants_toml(owner), "grants.toml", Rules)


def test_the_starter_grant_of_http_fetch_asks() -> None:
    (grant,) = [tomllib.loads(one.text) for one in starter.starters("x", "dom-me") if one.path.startswith("grants/")]
    assert (grant["tool"], grant["mode"], grant["max_taint"]) == ("http_fetch", "ask", "private")
    assert (grant["result_class"], grant["untrusted"]) == ("private", True)


@pytest.mark.parametrize("daemon", starter.DAEMONS)
def test_a_starter_file_has_every_setting_of_its_daemon(daemon: str) -> None:
    kept = (starters.FOLDER / f"{daemon}.toml").read_text(encoding="utf-8")
    assert kept == starters.written(daemon), "run: python -m tests.bxctl.starters"


def test_the_domain_has_a_line_to_be_written_on() -> None:
    assert (starters.FOLDER / "loopd.toml").read_text(encoding="utf-8").count(starter.DOMAIN_SETTING) == 1


def test_the_printed_settings_of_a_provider_go_under_the_model_that_is_there() -> None:
    shown = HOW_TO_NAME[HOW_TO_NAME.index("credentials.env") :].split("\n\n")[1]
    kept = (starters.FOLDER / "loopd.toml").read_text(encoding="utf-8")
    settings = tomllib.loads(kept.replace("[model]\n", f"[model]\n{shown}\n"))
    assert (settings["model"]["destination"], settings["model"]["auth"]) == ("openai", "key")
