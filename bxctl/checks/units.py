"""What can be seen of a box that systemd runs: its units, its sockets, its keys, and what the kernel must allow."""

import os
import re
import shlex
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bxctl.checks import Finding, Looked
from bxctl.places import Box
from bxctl.systemd.units import ENVIRONMENT, KEYS, MODEL, OWN, SYSTEM, TARGET, Place, unit_name, units
from bxctl.systemd.view import APART, LOCAL, SERVICES, passed_to
from proto.home import SYSTEM_HOME

_SECONDS: Final = 20.0
_OLDEST_SYSTEMD: Final = 252
_ASKED: Final = "Id,LoadState,ActiveState,UnitFileState,NRestarts,NeedDaemonReload,ConditionResult"
_PREFIX: Final = re.compile(r"^ExecStart=(?P<prefix>/\S*)/bin/", re.MULTILINE)
_VERSION: Final = ("systemctl", "--version")
_RUNBOOK: Final = "units"
_REFUSED_USER_NAMESPACES: Final = {
    "/proc/sys/user/max_user_namespaces": "0",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1",
    "/proc/sys/kernel/unprivileged_userns_clone": "0",
}


def looks(box: Box) -> Iterator[Looked]:
    """Every look at a box that systemd runs; none where it does not."""
    folder = box.units
    if folder is None:
        return
    place = _place(box, folder)
    again = "bxctl install --user" if place.user else "sudo bxctl install"
    states, said = _states(place)
    yield Looked(
        "units", said or _summary(states), (*_files(folder, place, again), *_units(states, place, again, said))
    )
    yield Looked(
        "sockets", f"{sum(len(passed_to(name)) for name in SERVICES)} from systemd", tuple(_sockets(box, states, place))
    )
    yield Looked("keys", "where egressd alone sees them", tuple(_keys(box, place, again)))
    yield Looked("kernel", f"systemd {_version() or 'unknown'}", tuple(_kernel(place)))


def _place(box: Box, folder: Path) -> Place:
    """Where the units that are installed have their programs."""
    place = SYSTEM if box.home == SYSTEM_HOME else OWN._replace(home=str(box.home))
    found = _PREFIX.search((folder / f"{unit_name('memoryd')}.service").read_text(encoding="utf-8"))
    return place._replace(prefix=found["prefix"]) if found else place


def _systemctl(place: Place, *words: str) -> str:
    return shlex.join(("systemctl", "--user", *words) if place.user else ("sudo", "systemctl", *words))


def _states(place: Place) -> tuple[dict[str, dict[str, str]], str | None]:
    """The properties of each unit, or why they cannot be seen."""
    names = sorted(units(place))
    command = ("systemctl", *(("--user",) if place.user else ()), "show", f"--property={_ASKED}", *names)
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {}, f"systemctl cannot be asked: {error}"
    if done.returncode:
        return {}, f"systemctl cannot be asked: {' '.join(done.stderr.split())}"
    blocks = [
        dict(line.split("=", 1) for line in text.splitlines() if "=" in line) for text in done.stdout.split("\n\n")
    ]
    return {block["Id"]: block for block in blocks if "Id" in block}, None


def _summary(states: dict[str, dict[str, str]]) -> str:
    active = {name for name, state in states.items() if state.get("ActiveState") == "active"}
    asleep = f"{MODEL}.socket" in active and f"{MODEL}.service" in states and f"{MODEL}.service" not in active
    return f"{len(active)} of {len(states)} active{f'; {MODEL} starts when it is asked' if asleep else ''}"


def _files(folder: Path, place: Place, again: str) -> Iterator[Finding]:
    """Unit files that are not those of this bxctl."""
    other = []
    for name, text in units(place).items():
        try:
            there = (folder / name).read_text(encoding="utf-8")
        except OSError:
            there = ""
        if not there.endswith(text):
            other.append(name)
    if other:
        yield Finding("units", f"not those of this version: {', '.join(other)}", again, _RUNBOOK)


def _units(states: dict[str, dict[str, str]], place: Place, again: str, said: str | None) -> Iterator[Finding]:
    if said is not None:
        yield Finding("units", said, _systemctl(place, "status", TARGET), _RUNBOOK)
    for name, state in states.items():
        optional = name.startswith(MODEL)
        if state.get("LoadState") != "loaded":
            yield Finding(name, f"is not loaded: {state.get('LoadState')}", again, _RUNBOOK)
        elif state.get("NeedDaemonReload") == "yes":
            yield Finding(name, "was changed on disk and not read again", _systemctl(place, "daemon-reload"), _RUNBOOK)
        elif state.get("ActiveState") == "failed":
            yield Finding(name, "failed again and again, and is left alone", _mend(place, name), _RUNBOOK)
        elif state.get("ActiveState") not in ("active", "activating", "reloading") and not optional:
            yield Finding(name, f"is {state.get('ActiveState')}", _systemctl(place, "start", TARGET), _RUNBOOK)
        if name == TARGET and state.get("UnitFileState") not in ("enabled", "enabled-runtime"):
            what = "does not start with the machine" if not place.user else "does not start when you log in"
            yield Finding(name, what, _systemctl(place, "enable", TARGET), _RUNBOOK)
        if (count := int(state.get("NRestarts") or 0)) > 0:
            log = "journalctl --user" if place.user else "sudo journalctl"
            yield Finding(name, f"ended and was started again {count} times", f"{log} -u {name} -p 4", None, "note")


def _mend(place: Place, name: str) -> str:
    return f"{_systemctl(place, 'reset-failed', name)} && {_systemctl(place, 'restart', TARGET)}"


def _sockets(box: Box, states: dict[str, dict[str, str]], place: Place) -> Iterator[Finding]:
    """The sockets of what is active: there, 0600, the box's own."""
    for service in SERVICES:
        unit = f"{unit_name(service)}.socket"
        if states.get(unit, {}).get("ActiveState") != "active":
            continue
        for row in passed_to(service):
            what = _wrong_with(row.at(box.home))
            if what is not None:
                yield Finding(row.path, what, _systemctl(place, "restart", TARGET), _RUNBOOK)


def _wrong_with(path: Path) -> str | None:
    try:
        found = path.lstat()
    except OSError as error:
        return error.strerror
    if not stat.S_ISSOCK(found.st_mode):
        return "is no socket"
    if stat.S_IMODE(found.st_mode) != 0o600:
        return f"mode {stat.S_IMODE(found.st_mode):o}, not 600"
    return None if found.st_uid == os.geteuid() else f"belongs to the user {found.st_uid}"


def _keys(box: Box, place: Place, again: str) -> Iterator[Finding]:
    """Keys lie where brokerd cannot see them, and nobody else can."""
    for name in APART:
        path = box.home / name
        if path.exists() and not path.is_symlink():
            yield Finding(name, f"lies beside grants.toml, where brokerd sees it, and not in {LOCAL}/", again, _RUNBOOK)
    if place.user:
        return
    if not os.path.isdir(KEYS):
        yield Finding(KEYS, "is not there: egressd does not start without it", again, _RUNBOOK)
    for name in (KEYS, ENVIRONMENT):
        if os.path.exists(name) and (mode := stat.S_IMODE(os.stat(name).st_mode)) & 0o077:
            yield Finding(name, f"mode {mode:o}: others can reach it", f"sudo chmod go= {name}", _RUNBOOK)


def _kernel(place: Place) -> Iterator[Finding]:
    version = _version()
    if version is not None and version < _OLDEST_SYSTEMD:
        what = f"systemd {version} does not know all that the units ask; {_OLDEST_SYSTEMD} does"
        yield Finding("systemd", what, "sudo apt-get install systemd", _RUNBOOK, "note")
    if not place.user:
        return
    for path, refused in _REFUSED_USER_NAMESPACES.items():
        try:
            value = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if value == refused:
            name = path.removeprefix("/proc/sys/").replace("/", ".")
            mended = {"0": "1", "1": "0"}[refused] if "max" not in path else "10000"
            what = f"{name} is {value}: a user's services cannot be shut in, and do not start"
            yield Finding("user namespaces", what, f"sudo sysctl {name}={mended}", _RUNBOOK)


def _version() -> int | None:
    try:
        said = subprocess.run(_VERSION, check=False, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.match(r"systemd (\d+)", said.stdout)
    return int(found[1]) if found else None
