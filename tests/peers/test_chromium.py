"""What Chromium says first in a tunnel, now: the recorded hello of the fast tests must not grow old unseen."""

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from egressd.wire.hello import Hello, HelloReader, Refused, check

pytestmark = [pytest.mark.peers, pytest.mark.timeout(120)]
_NAME = "api.example.com"


def _hello(browser: str, folder: Path) -> Hello:
    """What the browser says in the tunnel that it asks a proxy for."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        proxy.settimeout(60)
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}"]
        command += [f"--proxy-server=http://127.0.0.1:{proxy.getsockname()[1]}", f"https://{_NAME}/"]
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while True:
                with proxy.accept()[0] as client:
                    client.settimeout(10)
                    if not _asked(client).startswith(f"CONNECT {_NAME}:443 ".encode()):
                        continue
                    client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                    if (found := _read(client)) is not None:
                        return found
        finally:
            running.kill()
            running.wait()


def _read(client: socket.socket) -> Hello | None:
    """The hello that comes, or None: a connection may be opened ahead, and then closed."""
    reader, found = HelloReader(), None
    while found is None and (data := client.recv(1 << 16)):
        found = reader.feed(data)
    return found


def _asked(client: socket.socket) -> bytes:
    head = b""
    while b"\r\n\r\n" not in head and (data := client.recv(4096)):
        head += data
    return head


def test_chromium_is_refused_since_it_may_hide_another_name(tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert browser, "no Chromium is on this machine: sudo apt-get install chromium"
    found = _hello(browser, tmp_path)
    assert (found.name, found.ech) == (_NAME, True)
    with pytest.raises(Refused) as refused:
        check(found, _NAME)
    assert refused.value.reason == "ech"
