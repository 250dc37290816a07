"""A daemon for the tests of `bxctl up`: `python fake_daemon.py SOCKET [MODE]`.

It answers a ping, logs JSON, and ends with 0 on SIGTERM. Modes: `fails` ends with a sentence before it is ready;
`stubborn` hears no SIGTERM; `parent` has a child of its own that holds its output; `environ` logs its environment.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio

from proto.messages.wire import Ok, Ping
from proto.role.listen import listen
from proto.role.serve import Server


def _say(event: str, **fields: object) -> None:
    print(json.dumps({"event": event, "level": "info", "time": "2026-09-24T21:02:03Z", **fields}), file=sys.stderr)
    sys.stderr.flush()


async def _main(path: Path, mode: str) -> None:
    async def nothing(request: object, connection: object) -> Ok:
        return Ok()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Server("fake", (Ping,), nothing).serve, listen(path))
        _say("ready", pid=os.getpid())
        with anyio.open_signal_receiver(signal.SIGTERM) as signals:
            async for _ in signals:
                if mode != "stubborn":
                    _say("stopped")
                    tasks.cancel_scope.cancel()
                    return


if __name__ == "__main__":
    mode = sys.argv[2] if len(sys.argv) > 2 else ""
    if mode == "fails":
        sys.exit("fake: config.toml, line 3: unknown key \x1b[2J")
    if mode == "environ":
        _say("environ", names=sorted(os.environ))
    if mode == "parent":
        _say("child", pid=subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid)
    anyio.run(_main, Path(sys.argv[1]), mode)
