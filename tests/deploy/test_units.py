"""The units by themselves: current, accepted by systemd without a word, and as shut in as they can be.

What a unit shows its daemon is compared with the tables of proto by a reading of its own: the lines of the unit are
applied to a tree of names, and what is left is compared.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bxctl.systemd.units import OWN, SYSTEM, Place, files, unit_name, units
from bxctl.systemd.view import APART, SERVICES, folders
from proto.home import PATHS
from proto.sockets import SOCKETS, served_by
from tests.bench.units import MOST, exposure
from tests.deploy.units import FOLDER, written
from tests.shape import tree

NEEDS_SYSTEMD = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")


def _lines(service: str, place: Place = SYSTEM) -> list[tuple[str, str]]:
    """The directives of a service's unit."""
    text = units(place)[f"{unit_name(service)}.service"]
    pairs = [line.partition("=") for line in text.splitlines() if line and line[0] not in "#["]
    return [(key, value) for key, _, value in pairs]


def _seen(service: str) -> dict[str, str]:
    """What a service sees of a whole home: path to `ro` or `rw`. A rule is a path's own, or its nearest parent's."""
    home = SYSTEM.home
    rules = {"": "ro"}
    for key, value in _lines(service):
        path = value.split(":")[0].removeprefix("-")
        if path != home and not path.startswith(f"{home}/"):
            continue
        under = path.removeprefix(home).removeprefix("/")
        kinds = {
            "TemporaryFileSystem": "hidden",
            "InaccessiblePaths": "hidden",
            "BindReadOnlyPaths": "ro",
            "BindPaths": "rw",
        }
        if key in kinds:
            rules[under] = kinds[key]
    found = {}
    names = [row.path.rstrip("/") for row in PATHS if row.path.rstrip("/") not in APART]
    names += [f"local/{name}" for name in APART]
    names += [f"run/{row.name}" for row in SOCKETS] + ["run/sessions"]
    for name in names:
        rule = next(rules[parent] for parent in _parents(name) if parent in rules)
        if rule != "hidden":
            found[name] = rule
    return found


def _parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)] + [""]


def test_the_files_of_the_tree_are_current() -> None:
    """If not: python -m tests.deploy.units."""
    there = {path: path.read_text(encoding="utf-8") for path in FOLDER.rglob("*") if path.is_file()}
    assert there == written()


@pytest.mark.parametrize("service", SERVICES)
def test_a_unit_sees_what_the_tables_give_and_no_more(service: str) -> None:
    wanted = {}
    for row in PATHS:
        path = f"local/{row.path}" if row.path in APART else row.path.rstrip("/")
        if row.writer == service:
            wanted[path] = "rw"
        elif service in row.readers:
            wanted[path] = "ro"
    for socket in SOCKETS:
        if socket.client in (service, "every daemon"):
            wanted[f"run/{socket.name}"] = "ro"
    if service == "egressd":
        wanted |= {"run/spans-egress": "rw", "run/sessions": "rw"}
    if service == "boxmaker-model":
        wanted["run/egress-model"] = "rw"  # its engine's socket lies beside its own
    assert _seen(service) == wanted


@pytest.mark.parametrize("service", SERVICES)
def test_nobody_sees_where_the_owner_asks(service: str) -> None:
    assert [path for path in _seen(service) if path.startswith("run/owner-")] == []


def test_nothing_writes_grants() -> None:
    assert [service for service in SERVICES if _seen(service).get("grants") == "rw"] == []


@pytest.mark.parametrize("place", [SYSTEM, OWN], ids=["system", "user"])
def test_only_egressd_has_a_network(place: Place) -> None:
    shut = [service for service in SERVICES if ("PrivateNetwork", "yes") in _lines(service, place)]
    assert shut == [service for service in SERVICES if service != "egressd"]
    for service in shut:
        assert ("RestrictAddressFamilies", "AF_UNIX") in _lines(service, place)


def test_only_egressd_is_given_keys() -> None:
    given = [
        service for service in SERVICES for key, _ in _lines(service) if key in ("LoadCredential", "EnvironmentFile")
    ]
    assert set(given) == {"egressd"}


@pytest.mark.parametrize("service", SERVICES)
def test_a_daemon_that_ends_is_started_again_and_one_that_hangs_ended(service: str) -> None:
    lines = dict(_lines(service))
    assert (lines["Type"], lines["Restart"]) == ("notify", "on-failure")
    assert int(lines["StartLimitBurst"]) > 0
    assert ("WatchdogSec" in lines) == (service != "boxmaker-model")


def test_every_socket_that_is_answered_is_passed_and_no_other() -> None:
    for service in SERVICES:
        text = units(SYSTEM)[f"{unit_name(service)}.socket"]
        paths = {
            path.removeprefix(f"{SYSTEM.home}/") for path in re.findall(r"^ListenStream=(.*)$", text, re.MULTILINE)
        }
        answered = {row.path for row in served_by(service) if row.requests or row.protocol == "http"}
        assert paths == answered - {"run/spans-egress/spans.sock"}
        assert "SocketMode=0600" in text


def test_every_folder_of_a_unit_is_made_before_it() -> None:
    made = {f"{SYSTEM.home}/{path}" for path in folders()} | {SYSTEM.home}
    for service in SERVICES:
        for key, value in _lines(service):
            if key in ("BindPaths", "BindReadOnlyPaths", "TemporaryFileSystem") and value.startswith(SYSTEM.home):
                assert value.split(":")[0] in made


@pytest.mark.parametrize("place", [SYSTEM, OWN], ids=["system", "user"])
def test_only_egressd_sees_a_socket_of_the_system(place: Place) -> None:
    """A resolver asks the network for whoever asks it, and a name can hold what was read."""
    for service in SERVICES:
        lines = _lines(service, place)
        assert (("TemporaryFileSystem", "/run:ro,mode=0755") in lines) == (service != "egressd")
        seen = {value for key, value in lines if key.startswith("Bind") and value.startswith(("/run", "%t"))}
        assert seen <= {"%t/systemd/notify"}


def _laid_out(folder: Path, place: Place) -> Path:
    """The units of a flavour, with programs that are here."""
    here = place._replace(prefix=os.path.dirname(os.path.dirname(sys.executable)))
    for name, text in files(here).items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return folder


@NEEDS_SYSTEMD
@pytest.mark.parametrize("place", [SYSTEM, OWN], ids=["system", "user"])
def test_systemd_has_nothing_to_say(tmp_path: Path, place: Place) -> None:
    folder = _laid_out(tmp_path, place)
    names = sorted(str(path) for path in folder.iterdir() if path.suffix in (".service", ".socket", ".target"))
    mode = ["--user"] if place.user else []
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    said = subprocess.run(
        ["systemd-analyze", *mode, "--man=no", "verify", *names],
        capture_output=True,
        text=True,
        check=False,
        env=environ,
    )
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")


@NEEDS_SYSTEMD
@pytest.mark.parametrize("service", SERVICES)
def test_a_unit_is_shut_in_as_the_security_page_says(service: str) -> None:
    found = exposure(service)
    assert found <= MOST.get(service, 1.5)
    page = (tree.ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    (told,) = re.findall(rf"^\| {service} \| ([0-9.]+) \|$", page, re.MULTILINE)
    version = subprocess.run(["systemctl", "--version"], capture_output=True, text=True, check=True).stdout
    if version.startswith("systemd 252"):  # another counts other things
        assert found == float(told)
