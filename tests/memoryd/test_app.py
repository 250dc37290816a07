"""Starting and stopping a real memoryd: what it makes, what it refuses to start on, how it ends."""

import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgpack
import pytest

from memoryd import app
from memoryd.config import Config, Memory
from proto.messages.wire import Ok, Ping
from proto.role.ask import ask
from tests.memoryd.box import add
from tests.memoryd.daemon import Daemon


def _fails(*flags: str, environ: dict[str, str] | None = None) -> str:
    """What a memoryd says that does not start."""
    command = (sys.executable, "-m", "memoryd", "serve", *flags)
    run = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env=environ)
    assert run.returncode == 1, run.stderr
    return run.stderr


def test_it_makes_its_folders_and_sockets_and_ends_with_0(daemon: Daemon) -> None:
    for path in (daemon.loop, daemon.broker, daemon.owner):
        ask(path, Ping(), Ok)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for name in ("memory", "memory/edits", "memory/recalls", "index", "state/memoryd"):
        assert stat.S_IMODE((daemon.home / name).stat().st_mode) == 0o700
    assert "You are the agent of this box." in daemon.block()
    assert sorted(path.name for path in daemon.home.iterdir()) == ["index", "memory", "run", "state"]
    daemon.call(add("a"))
    code, said = daemon.stop()
    assert code == 0
    assert said.splitlines()[-1].endswith('"event": "stopped", "level": "info"}') or '"stopped"' in said
    for path in daemon.home.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_killed_daemon_starts_again_beside_its_old_sockets(daemon: Daemon) -> None:
    daemon.call(add("a"))
    daemon.kill()
    again = Daemon(daemon.home).start()
    assert "\na\n" in again.block()
    again.kill()


def test_a_write_under_way_is_finished_before_the_end(daemon: Daemon) -> None:
    request = {"session": "chat-a", "call": "x", "tool": "memory", "arguments": add("a")}
    body = msgpack.packb({"kind": "memory_call", "request": request, "taint": "private", "untrusted": False})
    process = daemon._process
    assert process is not None
    with socket.socket(socket.AF_UNIX) as connection:
        with (daemon.home / "memory" / "memory.md").open("a"):
            # An editor has the file open: the write waits, and the daemon is told to end.
            connection.connect(str(daemon.broker))
            connection.sendall(struct.pack(">I", len(body)) + body)
            time.sleep(0.15)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.15)
            assert process.poll() is None
        assert process.wait(timeout=20) == 0
    again = Daemon(daemon.home).start()
    assert [line["call"] for line in again.edits()] == ["x"]
    assert "\na\n" in again.block()
    again.kill()


def test_a_second_daemon_on_the_home_is_refused(daemon: Daemon) -> None:
    said = _fails("--home", str(daemon.home))
    assert f"another memoryd already serves {daemon.home} (runbook: socket-in-use)" in said
    assert daemon.call(add("a")).ok


def test_a_setting_that_is_not_known_is_named_with_file_and_line(home: Path) -> None:
    config = home / "memoryd.toml"
    config.write_text("[memory]\nreview = false\nrevue = true\n")
    said = _fails("--config", str(config), "--home", str(home))
    assert f"{config}, line 3: memory.revue: unknown key (runbook: config-invalid)" in said


def test_a_memory_folder_that_cannot_be_used(home: Path) -> None:
    (home / "elsewhere").mkdir()
    (home / "memory").symlink_to("elsewhere")
    assert "(runbook: memoryd-start-failed)" in _fails("--home", str(home))
    assert list((home / "elsewhere").iterdir()) == []
    (home / "memory").unlink()
    (home / "memory").write_text("a file")
    assert "(runbook: memoryd-start-failed)" in _fails("--home", str(home))
    (home / "memory").unlink()
    (home / "index").rmdir()
    (home / "index").write_text("a file")
    assert "(runbook: memoryd-start-failed)" in _fails("--home", str(home))


def test_everything_can_be_set(home: Path) -> None:
    config = home / "conf" / "memoryd.toml"
    config.parent.mkdir()
    (config.parent / "mine.md").write_text("My own soul.\n")
    config.write_text(
        f'[paths]\nhome = "{home}/box"\n'
        '[memory]\nsoul_starter = "mine.md"\nreview = true\n'
        '[index]\nmax_class = "secret"\n'
        '[recall]\nuntrusted = "never"\n'
        "[check]\nallow_joiners = true\n"
        f'[sockets]\nloop = "{home}/l/s"\nbroker = "{home}/b/s"\nadmin = "{home}/a/s"\n'
    )
    daemon = Daemon(home / "box", "--config", str(config))
    daemon.loop, daemon.broker, daemon.owner = home / "l" / "s", home / "b" / "s", home / "a" / "s"
    daemon.start()
    try:
        assert daemon.block().startswith("# soul.md\nMy own soul.\n\n# memory.md")
        assert "waits for the owner" in daemon.call(add("\u2764\ufe0f")).text
    finally:
        daemon.kill()
    assert (home / "box" / "memory" / "soul.md").read_text() == "My own soul.\n"


def test_the_home_is_that_of_the_environment_if_none_is_named(home: Path) -> None:
    (home / "memory").write_text("in the way")
    said = _fails(environ={**os.environ, "BOXMAKER_HOME": str(home)})
    assert str(home / "memory") in said


def test_the_starter_of_soul(home: Path) -> None:
    own = app.starter(None, Config())
    assert own.startswith(b"You are the agent of this box.")
    assert len(own.decode()) < 4000
    config = home / "memoryd.toml"
    assert app.starter(config, Config()) == own
    (home / "soul.md").write_text("beside the configuration")
    assert app.starter(config, Config()) == b"beside the configuration"
    assert app.starter(None, Config(memory=Memory(soul_starter=str(home / "soul.md")))) == own


@pytest.mark.parametrize("name", ["intent.json", "notes.seen", "heads", "answers.jsonl"])
def test_what_memoryd_keeps_for_itself_may_be_lost(daemon: Daemon, name: str) -> None:
    daemon.call(add("a"))
    daemon.call({"action": "note", "text": "n"})
    daemon.stop()
    (daemon.home / "state" / "memoryd" / name).unlink()
    daemon.start()
    assert daemon.call(add("b")).ok
    by = [line["by"] for line in daemon.edits()]
    assert by == (["agent", "agent", "owner", "agent"] if name == "notes.seen" else ["agent", "agent", "agent"])


def test_sixty_writers_at_once(daemon: Daemon) -> None:
    texts = [f"entry {number}" for number in range(60)]
    callers = [
        threading.Thread(target=daemon.call, args=(add(text),), kwargs={"session": f"chat-{at}"})
        for at, text in enumerate(texts)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    held = (daemon.home / "memory" / "memory.md").read_text().split("\n§\n")
    assert sorted(held) == sorted(texts)
    assert [line["after"] for line in daemon.edits()] == [held[: at + 1] for at in range(60)]
