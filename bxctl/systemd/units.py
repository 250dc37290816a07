"""The files that make the box a part of systemd, for the system and for a user: units, sysusers.d, tmpfiles.d. Pure.

`deploy/systemd` holds them as they are at the usual places; `bxctl install` writes them for other places too.
"""

from pathlib import PurePosixPath
from typing import Final, Literal, NamedTuple

from bxctl.systemd.hardening import directives
from bxctl.systemd.view import SERVICES, folders, passed_to, view_of
from proto.home import SYSTEM_HOME

TARGET: Final = "boxmaker.target"
USER: Final = "boxmaker"
KEYS: Final = "/etc/boxmaker/keys"
"""A file a key, named after its variable; egressd is given them by systemd, and nobody but root reads the folder."""
ENVIRONMENT: Final = "/etc/boxmaker/egressd.env"
MODEL: Final = "boxmaker-model"
WATCHDOG_SECONDS: Final = 60
_ABOUT: Final = {
    "memoryd": "everything remembered",
    "brokerd": "every decision",
    "egressd": "every byte that leaves",
    "loopd": "sessions",
    MODEL: "the embedded model, started by the first question",
}
_HEAD: Final = "# Written by bxctl.systemd.units, from the tables of proto; change it by a drop-in.\n"
_COVERED_OF_SYSTEM: Final = ("-/boot", "-/media", "-/mnt", "-/srv", "-/var/backups", "-/var/mail", "-/var/spool")


class Place(NamedTuple):
    """For whom the units are: the flavour, where the programs are, and where the home is."""

    flavour: Literal["system", "user"]
    prefix: str
    home: str

    @property
    def user(self) -> bool:
        """Whether the units are those of a user's own service manager."""
        return self.flavour == "user"


SYSTEM: Final = Place("system", "/opt/boxmaker", str(SYSTEM_HOME))
OWN: Final = Place("user", "%h/.local/lib/boxmaker", "%h/.local/share/boxmaker")


def unit_name(service: str) -> str:
    """The unit of a service without its suffix, `boxmaker-memoryd` and the like."""
    return service if service == MODEL else f"boxmaker-{service}"


def units(place: Place) -> dict[str, str]:
    """Every unit, by its name."""
    made = {TARGET: _target(place)}
    for service in SERVICES:
        made[f"{unit_name(service)}.service"] = _service(service, place)
        made[f"{unit_name(service)}.socket"] = _socket(service, place)
    return made


def passive() -> tuple[str, ...]:
    """Every unit but the target: what is stopped with it."""
    return tuple(f"{unit_name(service)}.{kind}" for service in SERVICES for kind in ("service", "socket"))


LIVES: Final = tuple(f"{unit_name(service)}.service" for service in SERVICES if service != MODEL)
"""The services that run with the target; the embedded model is started by the first question."""


def _target(place: Place) -> str:
    wants = [*(f"{unit_name(service)}.socket" for service in SERVICES), *LIVES]
    return _text(
        (
            "Unit",
            [
                ("Description", "The box: memory, policy, egress and sessions of its owner's agents"),
                ("Wants", " ".join(wants)),
            ],
        ),
        ("Install", [("WantedBy", "default.target" if place.user else "multi-user.target")]),
    )


def _socket(service: str, place: Place) -> str:
    paths = [f"{place.home}/{row.path}" for row in passed_to(service)]
    owned = [] if place.user else [("SocketUser", USER), ("SocketGroup", USER)]
    modes = [("SocketMode", "0600"), ("DirectoryMode", "0700"), ("Backlog", "4096")]
    unit = [
        ("Description", f"boxmaker: the sockets of {service}"),
        ("#", "They stay while the daemon is started again: who asks meanwhile waits, and no request is lost."),
        ("PartOf", TARGET),
    ]
    return _text(
        ("Unit", [*unit, *_model_is_here(service, place)]),
        ("Socket", [*(("ListenStream", path) for path in paths), *owned, *modes]),
    )


def _service(service: str, place: Place) -> str:
    name = unit_name(service)
    unit = [
        ("Description", f"boxmaker: {service}, {_ABOUT[service]}"),
        ("PartOf", TARGET),
        ("Requires", f"{name}.socket"),
        ("After", f"{name}.socket"),
        ("#", "A daemon that ends again and again is left alone then; `bxctl doctor` says so."),
        ("StartLimitIntervalSec", "5min"),
        ("StartLimitBurst", "10"),
        *_model_is_here(service, place),
    ]
    return _text(
        ("Unit", unit),
        ("Service", [*_life(service, place), *_keys(service, place)]),
        ("", _seen(service, place)),
        ("", _taken(service, place)),
    )


def _life(service: str, place: Place) -> list[tuple[str, str]]:
    socket = passed_to(service)[0].path
    words = (
        f"--socket {place.home}/{socket}"
        if service == MODEL
        else f"--home {place.home} --config {place.home}/config/{service}.toml"
    )
    who = [] if place.user else [("User", USER), ("Group", USER)]
    return [
        ("Type", "notify"),
        ("NotifyAccess", "main"),
        ("ExecStart", f"{place.prefix}/bin/{service} serve {words}"),
        *who,
        ("Environment", "PYTHONSAFEPATH=1 PYTHONDONTWRITEBYTECODE=1"),
        ("Restart", "on-failure"),
        ("RestartSec", "200ms"),
        *([("#", "It may have to check years of its journals first.")] if service == "memoryd" else []),
        ("TimeoutStartSec", "15min" if service == "memoryd" else "90s"),
        ("TimeoutStopSec", "30s"),
        ("#", "No watchdog: it computes for minutes.") if service == MODEL else ("WatchdogSec", f"{WATCHDOG_SECONDS}s"),
        ("LimitNOFILE", "65536"),
    ]


def _keys(service: str, place: Place) -> list[tuple[str, str]]:
    """What egressd alone is given: keys by systemd, and the variables that say where traces go."""
    if service != "egressd" or place.user:
        return []
    return [
        ("#", "A file a key, named after its variable; `bxctl credential set` keeps them in the home instead."),
        ("LoadCredential", f"keys:{KEYS}"),
        ("EnvironmentFile", f"-{ENVIRONMENT}"),
    ]


def _seen(service: str, place: Place) -> list[tuple[str, str]]:
    """What the service sees of the home, and what of the system it needs not."""
    view = view_of(service)

    def at(path: str) -> str:
        return place.home if path == "." else f"{place.home}/{path}"

    own = [("ProtectHome", "yes")]
    if place.user:
        # The programs and the home are within what is hidden.
        own = [("ProtectHome", "tmpfs"), ("BindReadOnlyPaths", place.prefix)]
        own += [("BindReadOnlyPaths", place.home)] if "." not in view.empty else []
    if service != "egressd":
        own += [("#", "Of the system's own sockets none: a resolver, or D-Bus, asks the network for whoever asks it.")]
        own += [("TemporaryFileSystem", "/run:ro,mode=0755")]
    if place.user or service != "egressd":
        # Where the service manager is told.
        own += [("BindReadOnlyPaths", "%t/systemd/notify")]
    return [
        ("#", "Of the home, what proto/home.py and proto/sockets.py give it, and no more."),
        *own,
        # What systemd makes for a service of the system is root's.
        *(("TemporaryFileSystem", f"{at(path)}:ro,mode={'0700' if place.user else '0755'}") for path in view.empty),
        *(("InaccessiblePaths", at(path)) for path in view.covered),
        *(("BindReadOnlyPaths", at(path)) for path in view.readable),
        *(("BindPaths", at(path)) for path in view.writable),
        ("InaccessiblePaths", " ".join(_COVERED_OF_SYSTEM)),
    ]


def _taken(service: str, place: Place) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for one in directives(network=service == "egressd", user=place.user):
        lines += [("#", line) for line in one.comment.splitlines()]
        lines += [(one.key, one.value)] if one.key else []
    return lines


def _model_is_here(service: str, place: Place) -> list[tuple[str, str]]:
    """The embedded model is optional: its units do nothing where its engine is not installed."""
    if service != MODEL:
        return []
    return [("ConditionPathExistsGlob", f"{place.prefix}/lib/python3*/site-packages/xllamacpp")]


def sysusers() -> str:
    """sysusers.d(5)."""
    return f'u {USER} - "The box of an owner\'s agents" {SYSTEM_HOME} /usr/sbin/nologin\n'


def tmpfiles(place: Place) -> str:
    """tmpfiles.d(5): every folder of the home, since a unit's view is made of them before its daemon runs."""
    who = "- -" if place.user else f"{USER} {USER}"
    lines = [f"d {place.home} 0700 {who} -"]
    lines += [f"d {place.home}/{path} 0700 {who} -" for path in folders()]
    if not place.user:
        lines += [f"d {PurePosixPath(KEYS).parent} 0755 root root -", f"d {KEYS} 0700 root root -"]
        # It may hold the token of a collector, and systemd reads it as root.
        lines += [f"f {ENVIRONMENT} 0600 root root -"]
    return "\n".join(lines) + "\n"


def files(place: Place) -> dict[str, str]:
    """Every file of a flavour by its path beside `deploy/systemd/<flavour>`, as it is kept there."""
    also = {"tmpfiles.d/boxmaker.conf": tmpfiles(place)}
    if not place.user:
        also["sysusers.d/boxmaker.conf"] = sysusers()
    return {name: _HEAD + text for name, text in (units(place) | also).items()}


def _text(*sections: tuple[str, list[tuple[str, str]]]) -> str:
    """Sections with their lines, `#` a comment; one without a name goes on with the one before, after an empty line."""
    lines = []
    for name, pairs in sections:
        lines += ["", f"[{name}]"] if name else [""]
        lines += [f"# {value}" if key == "#" else f"{key}={value}" for key, value in pairs]
    return "\n".join(lines) + "\n"
