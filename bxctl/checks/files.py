"""What can be seen without a daemon: the machine, the home and its modes, the owner's files, where the model is."""

import os
import platform
import shlex
import stat
import tomllib
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from bxctl import providers
from bxctl.checks import Finding, Looked, editor, on_file
from bxctl.checks.configs import daemons_say
from bxctl.places import Box, too_long_bytes
from proto.faults import Fault
from proto.home import PATHS, SYSTEM_HOME
from proto.rules import FILE, Rules, load_rules

_OLDEST_KERNEL: Final = (3, 15)
_MOST_LOOKED_AT: Final = 20_000


def machine() -> Looked:
    """The kernel and the Python."""
    release = platform.release()
    saw = f"Linux {release}, Python {platform.python_version()}"
    numbers = tuple(int(part) if part.isdigit() else 0 for part in release.split("-")[0].split(".")[:2])
    if platform.system() == "Linux" and numbers >= _OLDEST_KERNEL:
        return Looked("machine", saw)
    what = f"{platform.system()} {release}: memory is written by renameat2, which Linux has since 3.15"
    return Looked("machine", saw, (Finding("kernel", what, "uname -r", "memoryd-start-failed"),))


def home(box: Box) -> Looked:
    """The home: there, ours, for us alone, and not too deep for a socket."""
    if not box.made:
        what = f"there is no box at {box.home}"
        return Looked("home", "missing", (Finding("home", what, box.command("init"), "home-missing"),))
    findings = [*_longest_socket(box.home), *_modes(box.home), *_owners(box.home), *_another(box)]
    return Looked("home", str(box.home), tuple(findings))


def _another(box: Box) -> Iterator[Finding]:
    """The box of the host, which bxctl passes over while there is one of your own."""
    host = Box(SYSTEM_HOME)
    if box.home != SYSTEM_HOME and host.units is not None:
        yield Finding("home", f"systemd runs another box, at {SYSTEM_HOME}", host.command("doctor"), None, "note")


def settings(box: Box) -> Looked:
    """The TOML files of config/ and grants/, and grants.toml."""
    configs, grants = (sorted((box.home / folder).glob("*.toml")) for folder in ("config", "grants"))
    found = {path: said for path in [*configs, *grants] if (said := _no_toml(path))}
    found |= daemons_say([path for path in configs if path not in found])
    findings = [
        Finding(
            str(path.relative_to(box.home)),
            said.removeprefix(f"{path}: ").removeprefix(f"{path}, "),
            editor(path),
            "grants-invalid" if path in grants else "config-invalid",
        )
        for path, said in found.items()
    ]
    try:
        load_rules(box.home)
    except Fault as fault:
        findings.append(Finding(FILE, fault.message, editor(box.home / FILE), "rules-invalid"))
    return Looked("settings", f"{len(configs) + len(grants) + 1} files", tuple(findings))


def _no_toml(path: Path) -> str | None:
    try:
        tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        return f"not TOML: {error}"
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        return f"cannot be read: {error}"
    return None


def model(box: Box, environ: Mapping[str, str]) -> tuple[Looked, str | None]:
    """The model of new sessions, and the destination that serves it."""
    try:
        rules = load_rules(box.home)
        choice = providers.model_of(box.home, environ)
    except Fault as fault:
        # A file that cannot be read was told of with the settings.
        named = environ.get(providers.VARIABLE)
        findings = (Finding("model", fault.message, f"unset {providers.VARIABLE}", fault.runbook),) if named else ()
        return Looked("model", "unknown", findings), None
    return Looked("model", str(choice), tuple(_destination(box, choice, rules))), choice.destination


def _destination(box: Box, choice: providers.Choice, rules: Rules) -> Iterator[Finding]:
    if choice.destination not in rules.destinations:
        what = f"new sessions want the destination {choice.destination}, which grants.toml has not"
        yield Finding("model", what, editor(box.home / FILE), "destination-unknown")


def _longest_socket(place: Path) -> Iterator[Finding]:
    if over := too_long_bytes(place):
        what = f"the path is {over} bytes too long for the address of a socket"
        yield Finding(
            "home", what, f"mv {shlex.quote(str(place))} ~/box && export BOXMAKER_HOME=~/box", "socket-path-too-long"
        )


def _modes(place: Path) -> Iterator[Finding]:
    """Files and folders of the table that others may read or write."""
    for path in [place, *(place / row.path.rstrip("/") for row in PATHS)]:
        try:
            state = (Box(place).file(path.name) if path.is_symlink() else path).lstat()
        except OSError:
            continue
        name = "." if path == place else str(path.relative_to(place))
        if state.st_mode & 0o077 and _is_guarded(path, place, state.st_mode):
            yield Finding(
                name,
                f"mode {stat.S_IMODE(state.st_mode):o}: others can reach it",
                on_file("chmod go=", path),
                None,
            )


def _owners(place: Path) -> Iterator[Finding]:
    """Folders of the home in which something is another user's, which shuts the owner's daemons out of it."""
    owner = place.stat().st_uid
    for top in sorted({row.path.split("/")[0] for row in PATHS} | {"run"}):
        others = [path for path in islice(_below(place / top), _MOST_LOOKED_AT) if _uid(path) not in (owner, None)]
        if others:
            count = "" if len(others) == 1 else f" and {len(others) - 1:,} more"
            first = others[0].relative_to(place)
            what = f"{first}{count} belongs to the user {_uid(others[0])}, and not to {owner}"
            mend = f"sudo chown -R {owner} {shlex.quote(str(place / top))}"
            yield Finding(top, what, mend, "start-failed")


def _below(path: Path) -> Iterator[Path]:
    """A path and all below it; what cannot be listed is left out."""
    yield path
    if path.is_symlink():
        return
    for folder, folders, names in os.walk(path):
        yield from (Path(folder, name) for name in [*folders, *names])


def _uid(path: Path) -> int | None:
    try:
        return path.lstat().st_uid
    except OSError:
        return None


def _is_guarded(path: Path, place: Path, mode: int) -> bool:
    """Whether a mode matters: the home shuts everybody out of what is in it, but a key is kept shut by itself too."""
    return (
        path == place
        or path.name == "credentials.env"
        or bool(place.lstat().st_mode & 0o077 and not stat.S_ISLNK(mode))
    )
