"""Runs the server until it is ended; one line of JSON says where it is and who is there."""

import argparse
import json
import signal
import threading

from tests.fakes.mattermost import FakeMattermost


def main() -> None:
    """`python -m tests.fakes.mattermost --port N`."""
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.mattermost")
    parser.add_argument("--port", type=int, default=8065)
    port: int = parser.parse_args().port
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with FakeMattermost(port) as server:
        there = {
            "url": server.url,
            "bot_token": server.bot_token,
            "owner_token": server.owner_token,
            **{name: getattr(server, name)["id"] for name in ("owner", "other", "bot", "dm", "town", "private")},
        }
        print(json.dumps(there), flush=True)
        ended.wait()


if __name__ == "__main__":
    main()
