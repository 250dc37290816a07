"""Telling a supervisor that the sockets accept: systemd's notification socket, when one is named (sd_notify(3))."""

import os
import socket


def notify(state: str) -> None:
    """Send `READY=1`, `STOPPING=1` or `STATUS=…` to `$NOTIFY_SOCKET`, if there is one."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as datagrams:
        try:
            datagrams.sendto(state.encode(), address)
        except OSError:
            # A supervisor that has gone must not stop the daemon.
            return
