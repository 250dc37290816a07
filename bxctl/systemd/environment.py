"""A copy of the environment that bxctl runs in: the box, what it needs, and nothing else. No network.

What is copied is what was installed from requirements.lock, file by file, as each package's own list has it. The copy
is made beside its place and swapped in by one exchange, so that an interrupted one leaves the old one as it was. Python
itself is the system's: a unit's user cannot reach one that lies in somebody's home.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import util
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from proto.faults import Fault
from proto.role.exchange import exchange

_BOX: Final = "boxmaker"
_EXTRAS: Final = ("model",)
Wanted = tuple[str, tuple[str, ...]]
"""A package by its name, and its extras."""
_FOR_ALL: Final = 0o755
_FOR_READING: Final = 0o644
_PACKAGES: Final = ("proto", "memoryd", "brokerd", "egressd", "loopd", "boxmaker_model", "bxctl")
_REQUIREMENT: Final = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s*(?:\[(?P<extras>[^\]]*)\])?")
_FOR_AN_EXTRA: Final = re.compile(r"extra\s*==\s*['\"](?P<extra>[^'\"]+)['\"]")
_OF_A_CHECKOUT: Final = ("RECORD", "direct_url.json")
_PRIVATE: Final = ("/root/", "/home/")
_SCRIPT: Final = """#!{python}
import sys
from {module} import {function}
sys.exit({function}())
"""
_OURS: Final = "#!{python}\nimport sys\nfrom bxctl"
"""How a copy's own `bxctl` begins; that of an environment that pip filled has other lines."""


def refuse_another(prefix: Path) -> None:
    """Refuse a place in which there is something else than a copy of ours: it is not ours to remove.

    Raises:
        Fault: `install-failed`.

    """
    if not os.path.lexists(prefix):
        return
    try:
        is_free = not any(prefix.iterdir())
        command = "" if is_free else (prefix / "bin" / "bxctl").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        is_free, command = False, ""
    if not is_free and not command.startswith(_OURS.format(python=prefix / "bin" / "python")):
        raise Fault(
            "install-failed",
            f"{prefix} is there and is no installation of the box; name a --prefix that is not there, as /opt/boxmaker",
        )


def copy(prefix: Path, *, shared: bool, model: bool) -> int:
    """Make the environment at a prefix; how many packages are in it. `shared`: other users must be able to run it.

    Raises:
        Fault: `install-failed`: there is no Python for it, something else is in its place, or a file cannot be
            written.

    """
    refuse_another(prefix)
    place = Path(os.path.realpath(prefix))
    made, old = place.with_name(f".{place.name}.new"), place.with_name(f".{place.name}.old")
    python = interpreter(shared=shared)
    before = os.umask(0o022)
    try:
        shutil.rmtree(made, ignore_errors=True)
        made.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run((python, "-I", "-m", "venv", "--without-pip", "--symlinks", str(made)), check=True)
        (site,) = made.glob("lib/python3*/site-packages")
        packages = needed(model=model)
        for package in packages:
            _copy_package(package, site)
        _write_scripts(made / "bin", prefix)
        _compile(made / "bin" / "python", site, prefix)
        # One wait for all of it, before anything relies on it.
        os.sync()
        _swap(made, place, old)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Fault("install-failed", f"the environment {prefix} cannot be made: {error}") from None
    finally:
        os.umask(before)
        shutil.rmtree(made, ignore_errors=True)
    return len(packages)


def _swap(made: Path, place: Path, old: Path) -> None:
    """Put what was made in its place; what was there goes with `made`, or is removed."""
    if not place.exists():
        made.rename(place)
        shutil.rmtree(old, ignore_errors=True)
        return
    try:
        exchange(made, place)
    except OSError:
        # A file system that cannot do it at once.
        shutil.rmtree(old, ignore_errors=True)
        place.rename(old)
        made.rename(place)
        shutil.rmtree(old, ignore_errors=True)


def interpreter(*, shared: bool) -> str:
    """A Python of this version for the copy.

    Raises:
        Fault: `install-failed`: the one that runs is in somebody's home, and the system has none of its version.

    """
    base = os.path.realpath(sys.executable)
    if not shared or not base.startswith(_PRIVATE):
        return base
    version = "{}.{}".format(*sys.version_info)
    for folder in ("/usr/bin", "/usr/local/bin"):
        if os.access(found := f"{folder}/python{version}", os.X_OK):
            return found
    raise Fault(
        "install-failed",
        f"this environment runs on {base}, which other users cannot reach, and there is no /usr/bin/python{version}; "
        "make the environment with the system's Python",
    )


def needed(*, model: bool) -> tuple[Distribution, ...]:
    """The box and every package that it needs; with `model` the embedded model's too, if they are installed."""
    found: dict[str, Distribution] = {}
    seen: set[Wanted] = set()
    waiting: list[Wanted] = [(_BOX, _EXTRAS if model else ())]
    while waiting:
        name, extras = one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        with suppress(PackageNotFoundError):  # it is for another platform, or for an extra that is not installed
            found[name] = distribution(name)
            waiting += _requires(found[name], extras)
    return tuple(found[name] for name in sorted(found))


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _requires(package: Distribution, extras: tuple[str, ...]) -> Iterator[Wanted]:
    for line in package.requires or ():
        only_for = _FOR_AN_EXTRA.search(line)
        if (named := _REQUIREMENT.match(line)) and (only_for is None or only_for["extra"] in extras):
            more = tuple(extra.strip() for extra in (named["extras"] or "").split(",") if extra.strip())
            yield _key(named["name"]), more


def _copy_package(package: Distribution, site: Path) -> None:
    """Copy a package's files with their times, by which Python tells whether a compiled one is of its source."""
    if _key(package.name) == _BOX:
        _copy_the_box(package, site)
        return
    for file in package.files or ():
        if ".." in file.parts or file.is_absolute():
            continue
        # What pip compiled may have been cleaned away; it is compiled anew.
        if file.suffix != ".pyc" or os.path.exists(file.locate()):
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file.locate(), target)


def _copy_the_box(package: Distribution, site: Path) -> None:
    """Copy the box from where it is imported: the list of an editable install names a link to a checkout."""
    about = f"{_BOX}-{package.version}.dist-info"
    shutil.copytree(str(package.locate_file(about)), site / about, ignore=shutil.ignore_patterns(*_OF_A_CHECKOUT))
    for name in _PACKAGES:
        shutil.copytree(_source(name), site / name, ignore=shutil.ignore_patterns("__pycache__"))
    _make_readable(site)


def _make_readable(folder: Path) -> None:
    """Let everybody read it: a checkout may have been made under any umask, and copies have its modes."""
    for place, folders, files in os.walk(folder):
        for name in folders:
            os.chmod(os.path.join(place, name), _FOR_ALL)
        for name in files:
            path = os.path.join(place, name)
            os.chmod(path, _FOR_ALL if os.stat(path).st_mode & 0o100 else _FOR_READING)


def _source(name: str) -> str:
    found = util.find_spec(name)
    if found is None or not found.submodule_search_locations:
        raise Fault("install-failed", f"the package {name} is not installed beside bxctl")
    return found.submodule_search_locations[0]


def _compile(python: Path, site: Path, prefix: Path) -> None:
    """Compile what is not: no daemon may write there, and each start would do it anew."""
    known_as = prefix / site.relative_to(site.parents[2])
    subprocess.run((python, "-I", "-m", "compileall", "-q", "-s", site, "-p", known_as, site), check=False)


def _write_scripts(folder: Path, prefix: Path) -> None:
    for entry in distribution(_BOX).entry_points:
        if entry.group == "console_scripts":
            script = folder / entry.name
            text = _SCRIPT.format(python=prefix / "bin" / "python", module=entry.module, function=entry.attr)
            script.write_text(text, encoding="utf-8")
            script.chmod(0o755)
