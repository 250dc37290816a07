"""`bxctl credential`: a key is kept, never shown, and no other line of the file is touched."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto import credentials
from tests.bxctl.conftest import Bxctl

KEY = "sk-live-0123456789"


@pytest.fixture
def made(bxctl: Bxctl, home: Path) -> Path:
    """A home as `bxctl init` makes it; its credentials.env."""
    assert bxctl("init").code == 0
    return home / "credentials.env"


def _type(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_a_key_is_set_listed_and_removed(bxctl: Bxctl, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = made.read_text()
    made.chmod(0o644)
    _type(monkeypatch, f" {KEY}\n")
    result = bxctl("credential", "set", "OPENAI_API_KEY")
    assert (result.code, result.out) == (0, f"OPENAI_API_KEY is set in {made}\n")
    assert made.read_text() == f"{before}OPENAI_API_KEY={KEY}\n"
    assert made.stat().st_mode & 0o777 == 0o600
    listed = bxctl("credential", "list")
    assert KEY not in listed.out
    row = next(line for line in listed.out.splitlines() if line.startswith("OPENAI_API_KEY"))
    assert row.split() == ["OPENAI_API_KEY", "openai", "credentials.env"]
    assert {"name": "LLMAO_URL", "destinations": ["llmao"], "found": None} in bxctl("credential", "list", "--json").json
    assert bxctl("credential", "remove", "OPENAI_API_KEY").code == 0
    assert made.read_text() == before
    again = bxctl("credential", "remove", "OPENAI_API_KEY")
    assert (again.code, again.err) == (1, f"bxctl: OPENAI_API_KEY is not in {made} (runbook: credential-missing)\n")


def test_a_key_is_asked_for_on_a_terminal(bxctl: Bxctl, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("getpass.getpass", lambda prompt: KEY if prompt == "XAI_API_KEY: " else "")
    assert bxctl("credential", "set", "XAI_API_KEY").code == 0
    assert made.read_text().endswith(f"\nXAI_API_KEY={KEY}\n")


@pytest.mark.parametrize("typed", ["", "\n", "two words", "ä", "a\nb", "x" * 20_000, "a\x00b"])
def test_what_is_no_key_changes_nothing(bxctl: Bxctl, made: Path, monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    before = made.read_bytes()
    _type(monkeypatch, typed)
    result = bxctl("credential", "set", "OPENAI_API_KEY")
    assert result.code == 1
    assert (
        result.err
        == "bxctl: OPENAI_API_KEY: a key is printable ASCII without spaces, in one line (runbook: config-invalid)\n"
    )
    assert made.read_bytes() == before


@pytest.mark.parametrize("name", ["", "OPENAI-KEY", "1KEY", "A=B", "KEY\n"])
def test_a_name_has_the_form_of_a_variable(bxctl: Bxctl, made: Path, name: str) -> None:
    result = bxctl("credential", "set", name)
    assert result.code == 2
    assert "is no name of a variable" in result.err.replace("\n", " ")


lines = st.sampled_from(["# a note", "", "KEY=old", "export KEY = 'old'", "OTHER=x", " OTHER2=y ", "junk"])


@given(st.lists(lines), st.booleans(), st.sampled_from([None, KEY]))
def test_only_the_line_of_the_name_changes(before: list[str], ended: bool, value: str | None) -> None:
    text = "\n".join(before) + ("\n" if ended and before else "")
    after = credentials.replaced(text, "KEY", value)
    assert credentials.parse(after.encode()).get("KEY") == value
    others = [line for line in text.splitlines() if "KEY" not in line]
    assert [line for line in after.splitlines() if "KEY" not in line] == others
    assert after.count(KEY) == (value is not None)
    assert credentials.replaced(after, "KEY", value) == after


def test_a_key_is_written_where_the_file_is_linked_to_in_the_home(
    bxctl: Bxctl, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a system install it lies in local/, which brokerd does not see: the link must stay one."""
    real = made.parent / "local" / "credentials.env"
    real.parent.mkdir(mode=0o700)
    made.rename(real)
    made.symlink_to("local/credentials.env")
    _type(monkeypatch, KEY)
    assert bxctl("credential", "set", "OPENAI_API_KEY").code == 0
    assert made.is_symlink()
    assert f"OPENAI_API_KEY={KEY}" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o600
