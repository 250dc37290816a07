"""The distribution: its lock, its scripts, its wheel."""

import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from tests.shape import tree


def _project() -> dict[str, Any]:
    with (tree.ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


def _locked() -> dict[str, str]:
    """For each package its lines in the lock."""
    text = (tree.ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    return {entry.split("==")[0]: entry for entry in entries}


def test_everything_that_is_needed_is_locked() -> None:
    project = _project()
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    wanted += project["project"]["optional-dependencies"]["model"]
    names = {re.split(r"[<>=\[ ]", requirement)[0].lower() for requirement in wanted}
    assert names - set(_locked()) == set()


def test_every_line_of_the_lock_is_one_version_with_hashes() -> None:
    for name, entry in _locked().items():
        assert re.match(rf"{re.escape(name)}==[0-9][^ ]* ", entry), entry
        assert "--hash=sha256:" in entry


def test_the_lock_names_no_index() -> None:
    text = (tree.ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert re.findall(r"https?://|file:|--index-url|--extra-index-url|--find-links", text) == []


@pytest.mark.parametrize("script", _project()["project"]["scripts"])
def test_a_console_script_is_installed_and_can_be_called(script: str) -> None:
    (entry,) = entry_points(group="console_scripts", name=script)
    assert entry.value == _project()["project"]["scripts"][script]
    assert callable(entry.load())


def test_the_wheel_holds_every_file_of_the_product(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path))
    subprocess.run(command, cwd=tree.ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("boxmaker-*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    product = {str(path.relative_to(tree.ROOT)).removeprefix("services/") for path in tree.files(*tree.PRODUCT)}
    assert held == product
