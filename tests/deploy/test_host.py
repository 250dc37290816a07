"""The box on a host of its own: a real systemd, the real units, a scripted model. `docs/install.md` is followed word by
word; each daemon is killed, systemd itself too; and what no unit may do is tried from inside each.
"""

import contextlib
import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bxctl.systemd.units import SYSTEM, unit_name, units
from bxctl.systemd.view import APART, SERVICES
from proto import sockets
from proto.faults import Fault
from proto.home import PATHS
from proto.messages import loop
from tests.deploy.boxed import MARKS, OTHERWISE, Boxed, commands, installed
from tests.deploy.host import PATH
from tests.e2e.box import DAEMONS
from tests.shape import tree

SCRIPT = [{"when": "slowly", "text": "Slowly.", "delay_s": 1.0}]
PROBE = "/opt/boxmaker/probe.py"

pytestmark = MARKS


def _may(service: str) -> set[str]:
    """What a unit may do, of all that the probe tries: what the tables of proto give its daemon, and its own /tmp."""
    may = {"write /tmp", "read a page", "resolve a name"}
    for row in PATHS:
        name, is_folder = row.path.rstrip("/"), row.path.endswith("/")
        if row.writer == service:
            may |= {f"list {name}", f"write {name}"}
        elif service in row.readers:
            may.add(f"list {name}" if is_folder else f"read {name}")
    may |= {f"ask {row.name}/{Path(row.file).stem}" for row in sockets.SOCKETS if row.client == service}
    if service == "egressd":
        may |= {f"read local/{name}" for name in APART} | {"list local", "write run/sessions"}
        may |= {"open AF_INET", "open AF_INET6", "read a key of systemd"}
    if service in ("egressd", "boxmaker-model"):
        may.add("ask egress-model/scripted")
    return may


def _must_not(service: str) -> set[str]:
    """What matters most of what a unit may not do, by name."""
    never = {
        "write grants",
        "write policy",
        "append grants.toml",
        "write .",
        "be root",
        "mount",
        "make a user namespace",
    }
    never |= {
        f"ask {row.name}/{Path(row.file).stem}" for row in sockets.SOCKETS if row.client == "bxctl" and row.requests
    }
    if service != "egressd":
        never |= {"open AF_INET", "read credentials.env", "read a key of systemd"}
    if service != "brokerd":
        never.add("ask broker-memory/memory")
    return (
        never
        | {
            "memoryd": {"write sessions", "list audit"},
            "brokerd": {"write sessions", "list sessions", "list memory"},
            "egressd": {"list memory", "list sessions", "list audit"},
            "loopd": {"list memory", "list audit", "list grants"},
            "boxmaker-model": {"list memory", "list sessions", "list config"},
        }[service]
    )


@pytest.fixture(scope="module")
def boxed() -> Iterator[Boxed]:
    """A host on which the guide was followed; at the end the box is taken away as the guide says."""
    with installed(SCRIPT) as made:
        host = made.host
        host.put(f"{tree.ROOT}/key.txt", "sk-of-a-test")
        yield made
        uninstall, *rest = commands("This takes them away", "## For you alone")
        assert f"the home {SYSTEM.home} is as it was" in made.follow(uninstall)
        assert host.run("systemctl", "list-units", "--all", "--no-legend", "boxmaker*").stdout == ""
        assert not (host.root / "opt/boxmaker").exists()
        assert (host.root / "var/lib/boxmaker/grants.toml").exists()
        for command in rest:
            made.follow(command)
        assert host.run("id", "boxmaker", check=False).returncode != 0


def test_the_guide_word_by_word(boxed: Boxed) -> None:
    looks = commands("Look at it:", "### Change something")
    assert "bxctl doctor" in looks
    for command in looks:
        said = boxed.follow(command)
        if command == "bxctl doctor":
            assert said.endswith("nothing is wrong\n"), said
            assert "✓ units:" in said
        if command.startswith("bxctl run"):
            assert said == f"{OTHERWISE}\n"
    rows = json.loads(boxed.follow("bxctl destinations --json"))["destinations"]
    assert {row["destination"]: row["ready"] for row in rows}["openai"]
    assert boxed.follow("bxctl doctor").endswith("nothing is wrong\n")


def test_the_network_of_the_host_is_its_own(boxed: Boxed) -> None:
    """And a server of a test can be put into it."""
    with boxed.host.network():
        server = socket.create_server(("127.0.0.1", 0))
    with server:
        port = server.getsockname()[1]
        boxed.host.run("bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}")
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", port)).close()


def test_the_embedded_model_starts_with_the_first_question(boxed: Boxed) -> None:
    """Its engine too runs with no memory that is written and run."""
    if not boxed.has_model:
        pytest.skip("the embedded model is not installed here")
    assert boxed.host.run("systemctl", "is-active", "boxmaker-model.service", check=False).stdout == "inactive\n"
    path = sockets.socket("egress-model").at(boxed.home)
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(60)
        client.connect(str(path))
        client.sendall(b"GET /health HTTP/1.1\r\nHost: model\r\nConnection: close\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
    assert boxed.host.run("systemctl", "is-active", "boxmaker-model.service").stdout == "active\n"


def test_a_request_to_a_daemon_that_was_just_killed_is_answered(boxed: Boxed) -> None:
    for daemon in DAEMONS:
        before = int(boxed.show(daemon, "NRestarts"))
        boxed.kill(daemon)
        assert boxed.chat(f"after the end of {daemon}").text == OTHERWISE
        assert int(boxed.show(daemon, "NRestarts")) == before + 1


@pytest.mark.parametrize("daemon", DAEMONS)
def test_a_daemon_killed_in_the_middle_of_a_turn(boxed: Boxed, daemon: str) -> None:
    """The turn is answered once: as it goes, after a new start of loopd, or when it is said again."""
    count = len(boxed.model.requests)
    events = boxed.events("slowly, please")
    session = next(events).session
    boxed.model.wait_for(count + 1)
    boxed.kill(daemon)
    with contextlib.suppress(Fault):
        if any(isinstance(event, loop.ChatFailed) for event in events):
            assert daemon == "egressd"
            assert boxed.chat("slowly, please", session).text == "Slowly."
    deadline = time.monotonic() + 20
    while boxed.answers(session) != ["Slowly."]:
        assert time.monotonic() < deadline, boxed.answers(session)
        time.sleep(0.05)


def test_a_daemon_that_hangs_is_ended_and_started_again(boxed: Boxed) -> None:
    """The watchdog's time is shortened for this one."""
    host = boxed.host
    host.put("/run/systemd/system/boxmaker-loopd.service.d/watchdog.conf", "[Service]\nWatchdogSec=2\n")
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "reset-failed", "boxmaker-*")  # and the count of starts with it, of which there were many
    host.run("systemctl", "restart", "boxmaker-loopd.service")
    before = int(boxed.show("loopd", "NRestarts"))
    host.run("systemctl", "kill", "--signal=STOP", "boxmaker-loopd.service")
    assert boxed.chat("are you there?").text == OTHERWISE
    assert int(boxed.show("loopd", "NRestarts")) > before
    host.run("rm", "-r", "/run/systemd/system/boxmaker-loopd.service.d")
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "restart", "boxmaker-loopd.service")


def test_the_box_is_there_again_after_a_restart_of_the_host(boxed: Boxed) -> None:
    session = boxed.chat("the first").session
    boxed.host.halt()
    boxed.host.boot()
    boxed.serve()
    assert boxed.chat("the second", session).text == OTHERWISE
    assert boxed.answers(session) == [OTHERWISE, OTHERWISE]
    assert {boxed.show(daemon, "ActiveState") for daemon in DAEMONS} == {"active"}


def test_the_owners_files_are_seen_as_they_are_now(boxed: Boxed) -> None:
    """An editor puts a new file in the place of the old one: who had bound the file would go on seeing that one."""
    edit = "setpriv --reuid boxmaker --regid boxmaker --clear-groups sed -i"
    home = SYSTEM.home
    boxed.host.run("sh", "-c", f'{edit} \'s/^ceiling = "private"$/ceiling = "public"/\' {home}/grants.toml')
    with pytest.raises(AssertionError, match="ceiling"):
        boxed.chat("is this allowed?").text  # noqa: B018  (it raises when there is no answer)
    boxed.host.run("sh", "-c", f'{edit} \'s/^ceiling = "public"$/ceiling = "private"/\' {home}/grants.toml')
    assert boxed.chat("and now?").text == OTHERWISE


def test_a_backup_is_put_back(boxed: Boxed) -> None:
    session = boxed.chat("before the backup").session
    boxed.follow("bxctl backup /tmp/box.bxbackup")
    boxed.chat("after the backup", session)
    boxed.follow("bxctl restore /tmp/box.bxbackup")
    boxed.follow("sudo systemctl start boxmaker.target")
    boxed.serve()
    assert boxed.answers(session) == [OTHERWISE]
    assert boxed.chat("go on", session).text == OTHERWISE
    assert boxed.follow("bxctl doctor").endswith("nothing is wrong\n")


def test_a_user_has_a_box_without_root(boxed: Boxed) -> None:
    host = boxed.host
    host.run("useradd", "--create-home", "ada")
    (uid,) = host.run("id", "-u", "ada").stdout.split()
    host.run("systemctl", "start", f"user@{uid}.service")
    ada = ("setpriv", "--reuid", "ada", "--regid", "ada", "--init-groups", "env", "-i", "HOME=/home/ada")
    as_ada = (*ada, f"PATH=/home/ada/.local/bin:{PATH}", "LANG=C.UTF-8", f"XDG_RUNTIME_DIR=/run/user/{uid}")
    (command,) = commands("## For you alone", "## What a unit may not do")
    # The copy that runs for the host makes one of itself.
    host.run(*as_ada, "env", "--unset=XDG_RUNTIME_DIR", *command.split(), "--no-model")
    assert host.run(*as_ada, "bxctl", "--version").stdout == host.run("bxctl", "--version").stdout
    assert host.run(*as_ada, "bxctl", "doctor").stdout.endswith("nothing is wrong\n")
    pid = host.run(*as_ada, "systemctl", "--user", "show", "-P", "MainPID", "boxmaker-memoryd.service").stdout.strip()
    inside = ("nsenter", "-t", pid, "-m", "--")
    home = "/home/ada/.local/share/boxmaker"
    assert host.run(*inside, "ls", home).stdout.split() == [
        *("config", "index", "ledger", "memory", "quarantine", "record", "run", "sessions", "state")
    ]
    assert host.run(*inside, "ls", "/home/ada", "/root").stdout.split() == ["/home/ada:", "/root:"]
    assert host.run(*inside, "readlink", "/proc/1/ns/net").stdout != host.run("readlink", f"/proc/{pid}/ns/net").stdout
    assert "CapBnd:\t0000000000000000" in host.run("cat", f"/proc/{pid}/status").stdout
    host.run(*as_ada, "bxctl", "uninstall", "--user")
    assert host.run(*as_ada, "ls", home).stdout.split()


@pytest.mark.parametrize("service", SERVICES)
def test_what_a_unit_may_not_do(boxed: Boxed, service: str) -> None:
    """Tried from inside the unit: the same file, with a program in the place of the daemon that tries it all."""
    host = boxed.host
    name = f"probe-{service}.service"
    text = units(SYSTEM)[f"{unit_name(service)}.service"]
    text = re.sub(r"^(Requires|After|PartOf|WatchdogSec|Restart|Condition\w+)=.*\n", "", text, flags=re.MULTILINE)
    text = text.replace("Type=notify", "Type=oneshot").replace(
        "NotifyAccess=main", f"StandardOutput=file:/run/{name}.out"
    )
    text = re.sub(
        r"^ExecStart=.*$", f"ExecStart=/opt/boxmaker/bin/python -I {PROBE} {SYSTEM.home}", text, flags=re.MULTILINE
    )
    host.put(f"/run/systemd/system/{name}", text)
    host.put(PROBE, (Path(__file__).with_name("probe.py")).read_text())
    host.run("systemctl", "daemon-reload")
    host.run("systemctl", "start", name)
    tried, could = json.loads(host.run("cat", f"/run/{name}.out").stdout)
    assert set(could) == _may(service) & set(tried)
    assert _must_not(service) <= set(tried) - set(could)
