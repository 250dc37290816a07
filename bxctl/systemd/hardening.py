"""What is taken from every unit, as directives of systemd.exec(5) and systemd.resource-control(5). Pure data.

A directive that `systemd-analyze security` counts and that is not set has a comment in the units that says why not.
"""

from typing import Final, NamedTuple


class Directive(NamedTuple):
    """A line of a unit, with a comment above it where it needs one; a comment alone says why there is no line."""

    key: str
    value: str
    comment: str = ""


_SYSTEM_ONLY: Final = frozenset(
    {"DevicePolicy", "IPAddressDeny", "ProtectClock", "ProtectKernelModules", "RemoveIPC", "ProtectProc", "ProcSubset"}
)
"""What the service manager of a user cannot do."""
COMMON: Final = (
    Directive("UMask", "0077"),
    Directive("NoNewPrivileges", "yes"),
    Directive("CapabilityBoundingSet", ""),
    Directive("AmbientCapabilities", ""),
    Directive("PrivateUsers", "yes", "Every user but root and the box's own is nobody here."),
    Directive("ProtectSystem", "strict", "All is read-only but what is bound below."),
    Directive("PrivateTmp", "yes"),
    Directive("PrivateMounts", "yes"),
    Directive("PrivateDevices", "yes"),
    Directive("DevicePolicy", "closed"),
    Directive("PrivateIPC", "yes"),
    Directive("RemoveIPC", "yes"),
    Directive("ProtectHostname", "yes"),
    Directive("ProtectClock", "yes", "It lists the real-time clock as a device to read, which PrivateDevices= hides."),
    Directive("ProtectKernelTunables", "yes"),
    Directive("ProtectKernelModules", "yes"),
    Directive("ProtectKernelLogs", "yes"),
    Directive("ProtectControlGroups", "yes"),
    Directive("ProtectProc", "invisible"),
    Directive("ProcSubset", "pid"),
    Directive("RestrictNamespaces", "yes"),
    Directive("RestrictRealtime", "yes"),
    Directive("RestrictSUIDSGID", "yes"),
    Directive("LockPersonality", "yes"),
    Directive("KeyringMode", "private"),
    Directive("SystemCallArchitectures", "native"),
    Directive("SystemCallFilter", "@system-service", "What a filter leaves out fails with EPERM."),
    Directive("SystemCallFilter", "~@privileged @resources"),
    Directive("SystemCallErrorNumber", "EPERM"),
    Directive("MemoryDenyWriteExecute", "yes"),
    Directive("LimitCORE", "0", "No key and no text of a session is left in a dump."),
)
"""Of every service."""
NO_NETWORK: Final = (
    Directive("PrivateNetwork", "yes", "No interface but a loopback of its own."),
    Directive("IPAddressDeny", "any"),
    Directive("RestrictAddressFamilies", "AF_UNIX"),
)
"""Of every service but egressd."""
NETWORK: Final = (
    Directive("RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6"),
    Directive(
        "",
        "",
        "PrivateNetwork=, IPAddressDeny= and the families of the Internet cannot be taken: this is the one daemon that "
        "reaches\nout. Where to, it asks brokerd each time; name your networks by IPAddressDeny= in a drop-in.",
    ),
)
"""Of egressd."""
UNSET: Final = (
    Directive(
        "",
        "",
        "No RootDirectory= or RootImage=: Python and its libraries are the system's, read-only, and what is needed of\n"
        "the system least is covered above. AF_UNIX stays: the daemons speak over it.",
    ),
)


def directives(*, network: bool, user: bool) -> tuple[Directive, ...]:
    """The directives of a service, in the order in which they stand in its unit."""
    lines = (*COMMON, *(NETWORK if network else NO_NETWORK), *UNSET)
    return tuple(line for line in lines if not (user and line.key in _SYSTEM_ONLY))
