"""Settings: an error names the file, the line and the key."""

import os
from pathlib import Path

import msgspec
import pytest

from proto.faults import Fault
from proto.role.config import load, parse
from proto.rules import Rules


class _Index(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    max_class: str = "private"
    size: int = 1


class _Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    index: _Index = _Index()
    names: dict[str, _Index] = {}


def _error(text: str) -> str:
    with pytest.raises(Fault) as caught:
        parse(text, "memoryd.toml", _Config)
    assert caught.value.code == "config-invalid"
    return caught.value.message


def test_nothing_set_is_all_defaults() -> None:
    assert parse("", "memoryd.toml", _Config) == _Config()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[index]\nmax_clas = 'x'\n", "memoryd.toml, line 2: index.max_clas: unknown key"),
        ("\n[indx]\nsize = 2\n", "memoryd.toml, line 2: indx: unknown key"),
        ("[index]\nmax_class = 'x'\nsize = 'y'\n", "memoryd.toml, line 3: index.size: Expected `int`, got `str`"),
        ("index.size = 1.5\n", "memoryd.toml, line 1: index.size: Expected `int`, got `float`"),
        ("[names.a]\nsize = 1\n[names.b]\nsiz = 1\n", "memoryd.toml, line 4: names.b.siz: unknown key"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    assert _error(text) == message


def test_what_is_nested_too_deep_is_an_error_of_the_file() -> None:
    assert _error("a = " + "[" * 100_000) == "memoryd.toml: nested too deep"


@pytest.mark.parametrize("form", ["folder", "fifo", "huge", "binary", "absent"])
def test_what_is_no_file_of_settings_is_told_and_never_waited_for(tmp_path: Path, form: str) -> None:
    path = tmp_path / "memoryd.toml"
    match form:
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "huge":
            path.write_bytes(b"#" * (2 << 20))
        case "binary":
            path.write_bytes(b"\xff\xfe")
        case _:
            pass
    with pytest.raises(Fault) as caught:
        load(path, _Config)
    assert caught.value.code == "config-invalid"
    assert str(path) in caught.value.message


def test_what_is_not_toml_says_where() -> None:
    assert "memoryd.toml: not TOML" in _error("[index\n")
    assert "line 1" in _error("[index\n")


_DESTINATIONS = """[destinations.good]
base_url = "https://a.example"

[destinations.bad]
ceiling = "private"
base_url = "{url}"
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            _DESTINATIONS.replace("{url}", "ftp://x"),
            "line 6: destinations.bad.base_url: expected https://HOST, http:// to loopback, or unix:PATH",
        ),
        (
            _DESTINATIONS.replace("{url}", "https://x").replace("private", "most"),
            "line 5: destinations.bad.ceiling: Invalid enum value 'most'",
        ),
        ("[destinations.a]\n", "line 1: destinations.a: a destination has a base_url, a base_url_from or tunnels"),
        (
            '[destinations."A b"]\nbase_url = "https://x"\n',
            "line 1: destinations.A b: expected a name of lower-case letters, digits and hyphens",
        ),
    ],
)
def test_the_entry_of_a_table_is_named(text: str, message: str) -> None:
    with pytest.raises(Fault) as caught:
        parse(text, "grants.toml", Rules)
    assert caught.value.message == f"grants.toml, {message}"
