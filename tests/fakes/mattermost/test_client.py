"""The fake server is one to Mattermost's own JavaScript client: it logs in, talks, reacts, hears, and comes back."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import IO, Any, Final

import pytest

from tests.fakes.mattermost import FakeMattermost

JS: Final = Path(__file__).with_name("js")
NODE, NPM = shutil.which("node"), shutil.which("npm")


def _installed() -> Path:
    """The folder with the client of the lock file, installed once for each lock under the user's cache."""
    lock = (JS / "package-lock.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "boxmaker"
    folder = cache / f"mattermost-client-{hashlib.sha256(lock).hexdigest()[:16]}"
    if folder.exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as making:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(JS / name, making)
        command = [NPM or "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(command, cwd=making, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            pytest.skip(f"npm could not install @mattermost/client: {done.stderr.strip().splitlines()[:1]}")
        shutil.copytree(making, folder, dirs_exist_ok=True)
    return folder


def _step(lines: IO[str], name: str) -> dict[str, Any]:
    line = lines.readline()
    assert line, "the client ended"
    found: dict[str, Any] = json.loads(line)
    assert found.pop("step") == name
    return found


@pytest.mark.skipif(NODE is None or NPM is None, reason="node and npm are not here")
def test_mattermosts_own_client_is_served() -> None:
    folder = _installed()
    with FakeMattermost() as server:
        environ = {
            **os.environ,
            "NODE_PATH": str(folder / "node_modules"),
            "BASE": server.url,
            "BOT_TOKEN": server.bot_token,
            "DM": server.dm["id"],
        }
        command = [NODE or "node", str(JS / "client.cjs")]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environ) as client:
            assert client.stdout is not None and client.stderr is not None
            try:
                _talks(server, client.stdout)
                assert client.wait(10) == 0
            finally:
                client.kill()
                print(client.stderr.read())


def _talks(server: FakeMattermost, lines: IO[str]) -> None:
    talked = _step(lines, "talked")
    first = server.posts(server.dm)[0]
    assert talked == {
        "me": "boxmaker",
        "posted": "What is the time?",
        "typing": [server.bot["id"], first["id"]],
        "edited": "It is noon.",
        "reaction": "white_check_mark",
        "reactions": 1,
        "file": "output.txt",
        "refused": "model.post.is_valid.message_length.app_error",
        "thread": ["", "It is noon.", "What is the time?"],
        "after": 2,
    }
    assert server.posts(server.dm, first)[0]["props"]["boxmaker"] == "s/1/1"

    server.faults.drop_next(1)
    server.say(server.owner, server.dm, "lost on the way")
    server.reset_connections()
    server.say(server.owner, server.dm, "meanwhile")
    assert _step(lines, "resumed") == {"posts": ["lost on the way", "meanwhile"], "missed": 0}

    server.wait(lambda: server.connected == 2)
    server.faults.refuse_upgrade = 503
    server.reset_connections()
    server.wait(lambda: not server.connected)
    server.forget_connections()
    server.faults.refuse_upgrade = 0
    assert _step(lines, "began again") == {"missed": 1}
    server.wait(lambda: server.state.posts[first["id"]]["delete_at"])
