"""Telling a supervisor that the sockets accept, and that the loop turns: systemd's notification socket, when one is
named (sd_notify(3)).
"""

import os
import socket


def notify(state: str) -> None:
    """Send `READY=1`, `STOPPING=1`, `WATCHDOG=1` or `STATUS=…` to `$NOTIFY_SOCKET`, if there is one."""
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


def watchdog_s() -> float | None:
    """How long the supervisor waits for a `WATCHDOG=1`; None where it waits for none (sd_watchdog_enabled(3))."""
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    wanted = os.environ.get("WATCHDOG_USEC", "")
    return int(wanted) / 1e6 if wanted.isdecimal() and int(wanted) else None
