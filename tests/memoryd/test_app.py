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
from proto.canon import digest
from proto.messages.wire import Ok, Ping
from proto.role.ask import ask
from tests.memoryd.box import Box, add, note
from tests.memoryd.daemon import Daemon

pytestmark = pytest.mark.measured


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
    assert sorted(path.name for path in daemon.home.iterdir()) == ["index", "memory", "record", "run", "state"]
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


def test_it_ends_while_the_index_still_catches_up(daemon: Daemon) -> None:
    daemon.stop()
    log = daemon.home / "sessions" / "chat-long" / "0.jsonl"
    log.parent.mkdir(parents=True)
    line = b'{"kind":"user","time":"2026-09-20T14:02:00Z","text":"%d apples of the garden behind the house","author":null}\n'
    log.write_bytes(b"".join(line % number for number in range(300_000)))
    daemon.start()
    code, said = daemon.stop()
    assert (code, '"caught-up"' in said, "Traceback" in said) == (0, False, False), said


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


NO_LINE = b'{"line":{},"file":null,"notes":null,"pending":null}'
DEEP = b"[" * 100_000
DAMAGE = {
    "edits": ("memory/edits/2026-01.jsonl", DEEP + b"\n"),
    "an edit of nested texts": ("memory/edits/2026-01.jsonl", b'{"before":' + b"[" * 700 + b"]" * 700 + b"}\n"),
    "pending": ("memory/pending.jsonl", DEEP + b"\n" + DEEP),
    "answers": ("state/memoryd/answers.jsonl", DEEP + b"\n\xff\n[]\n" + DEEP),
    "heads": ("state/memoryd/heads", DEEP),
    "intent": ("state/memoryd/intent.json", DEEP),
    "intent with its hash": ("state/memoryd/intent.json", digest(DEEP).encode() + b" " + DEEP),
    "an intent of nothing": ("state/memoryd/intent.json", digest(b"{}").encode() + b" {}"),
    "an intent without a line": ("state/memoryd/intent.json", digest(NO_LINE).encode() + b" " + NO_LINE),
    "notes.seen": ("state/memoryd/notes.seen", b"\xff\xfe"),
    "notes.seen.next": ("state/memoryd/notes.seen.next", b"\xff\xfe"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_line_or_file_of_its_own_does_not_keep_it_from_starting(box: Box, what: str) -> None:
    box.call(add("a"))
    box.call(note("n"))
    box.close()
    name, data = DAMAGE[what]
    (box.home / name).write_bytes(data)
    again = box.reopen()
    assert again.call(add("b")).startswith("memory.md updated")
    assert again.call(note("m")) == "noted"
    assert again.text("memory.md") == "a\n§\nb"
    agents = [line["after"] for line in again.lines_read() if line.get("by") == "agent"]
    assert agents == [["a"], ["n"], ["a", "b"], ["m"]]
    verified = again.holdings.shelf.journal.verify()
    damaged = name.startswith("memory/edits") or name.endswith("heads")
    assert any(state.first_bad for state in verified) == damaged
    again.reopen().close()


@pytest.mark.parametrize("delay_s", [0.0, 0.4])
def test_who_is_told_to_stop_while_it_opens_a_long_journal_stops_at_once(home: Path, delay_s: float) -> None:
    """The journal has no end here: each line that was checked takes the time of thousands."""
    box = Box(home)
    for number in range(30):
        box.call(note(f"n{number}"))
    box.close()
    slow = (
        "import sys, time, memoryd.__main__, proto.chain as chain\n"
        "holds = chain.holds\n"
        "def slow(*a):\n"
        "    print('opening', flush=True)\n"
        "    time.sleep(1)\n"
        "    return holds(*a)\n"
        "chain.holds = slow\n"
        "sys.exit(memoryd.__main__.main())"
    )
    command = (sys.executable, "-c", slow, "serve", "--home", str(home))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "opening\n"
        time.sleep(delay_s)
        process.terminate()
        shown, said = process.communicate(timeout=20)
    assert process.returncode == 0, said
    assert '"stopped"' in said
    assert '"ready"' not in said
    assert shown.count("opening") < 5
    again = Box(home)
    assert len(again.lines()) == 30
    again.close()


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
