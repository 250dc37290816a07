"""A ping of a daemon against a bare anyio echo on the same kind of socket, one request a connection."""

import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from proto import frame
from proto.messages.wire import Ping

_ROUNDS: Final = 5
_REQUESTS: Final = 1500
_ECHO: Final = """
import sys, anyio
async def echo(stream):
    async with stream:
        await stream.send(await stream.receive())
async def main():
    listener = await anyio.create_unix_listener(sys.argv[1], mode=0o600)
    await listener.serve(echo)
anyio.run(main)
"""


def requests_us(path: Path, data: bytes, count: int = _REQUESTS) -> float:
    """The mean time of a request over a new connection, in microseconds."""
    started = time.perf_counter()
    for _ in range(count):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(data)
            while client.recv(4096):
                pass
    return (time.perf_counter() - started) / count * 1e6


def compare(daemon_socket: Path, folder: Path) -> list[str]:
    """The lines of the report; rounds of both alternate, the median of five is told."""
    echo_path = folder / "echo.sock"
    echo = subprocess.Popen([sys.executable, "-c", _ECHO, str(echo_path)])
    try:
        while not echo_path.exists():
            time.sleep(0.02)
        time.sleep(0.2)
        data = frame.pack(Ping())
        pairs = [(requests_us(daemon_socket, data), requests_us(echo_path, data)) for _ in range(_ROUNDS + 1)][1:]
    finally:
        echo.terminate()
        echo.wait()
    ping, bare = (sorted(values)[_ROUNDS // 2] for values in zip(*pairs, strict=True))
    return [f"ping            {ping:8.0f} µs   bare anyio echo {bare:8.0f} µs   ratio {ping / bare:.2f} (at most 2)"]
