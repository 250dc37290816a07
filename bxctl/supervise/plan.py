"""What `bxctl up` runs: each program's command and environment, and the sockets that say that it is ready. Pure data.

The environment is the caller's without whatever looks like a key, and without what leads Python to other modules;
egressd alone gets the variables that grants.toml names as credentials, and those that say where traces go.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, NamedTuple

from bxctl import providers
from bxctl.providers import Choice
from proto.rules import Rules, load_rules
from proto.sockets import served_by, socket

DAEMONS: Final = ("memoryd", "brokerd", "egressd", "loopd")
MODEL: Final = "boxmaker-model"
SAFE: Final = ("PYTHONSAFEPATH", "1")
"""What a daemon starts in Python itself does not look for modules where it was started either."""
_NOT_FOR_THEM: Final = frozenset({providers.VARIABLE, "NOTIFY_SOCKET"})
_OF_SYSTEMD: Final = frozenset({"CREDENTIALS_DIRECTORY"})
_OF_PYTHON: Final = "PYTHON"
_OF_TRACES: Final = "OTEL_"
"""They may hold a collector's token, and no program but egressd sends traces."""
_LOOKS_LIKE_A_KEY: Final = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


class Probe(NamedTuple):
    """A socket that answers when its program is ready: a frame `ping`, or `GET /health`."""

    path: Path
    protocol: Literal["frames", "http"]


class Program(NamedTuple):
    """A process of the box."""

    name: str
    command: tuple[str, ...]
    environ: dict[str, str]
    probes: tuple[Probe, ...]


class Plan(NamedTuple):
    """The programs in the order of their start, the model of new sessions, and a file to write first, if any."""

    programs: tuple[Program, ...]
    model: Choice
    rendered: tuple[Path, str] | None


def plan(home: Path, environ: Mapping[str, str]) -> Plan:
    """The plan for a home and an environment.

    Raises:
        Fault: `config-invalid`, `destination-unknown`: what the owner's files or the variable say cannot be run.

    """
    rules = load_rules(home)
    chosen = providers.chosen(environ)
    rendered = None
    if chosen:
        providers.check(chosen, rules)
        path = home / "state" / "bxctl" / "loopd.toml"
        rendered = (path, providers.configured(providers.loopd_toml(home), chosen, rules))
    model = providers.model_of(home, environ)
    programs = [
        _daemon(name, home, rendered[0] if rendered and name == "loopd" else None, environ, rules) for name in DAEMONS
    ]
    if _wants_embedded_model(model, rules):
        programs.insert(0, _embedded_model(home, environ))
    return Plan(tuple(programs), model, rendered)


def environment(environ: Mapping[str, str], credentials: frozenset[str] = frozenset()) -> dict[str, str]:
    """The environment for a program: without keys, but for those that are named, and with our words alone to Python."""
    passed = {
        name: value
        for name, value in environ.items()
        if name in credentials
        or not (name in _NOT_FOR_THEM or name.startswith((_OF_PYTHON, _OF_TRACES)) or _LOOKS_LIKE_A_KEY.search(name))
    }
    return {**passed, **dict((SAFE,))}


def module(name: str, *words: str) -> tuple[str, ...]:
    """The command that runs a module of the box: never one that lies in the folder in which bxctl was called."""
    return (sys.executable, "-P", "-m", name, *words)


def _daemon(name: str, home: Path, config: Path | None, environ: Mapping[str, str], rules: Rules) -> Program:
    own = home / "config" / f"{name}.toml"
    config = config or (own if own.exists() else None)
    named_config = ("--config", str(config)) if config else ()
    command = module(name, "serve", "--home", str(home), *named_config)
    named = frozenset(one.credential for one in rules.destinations.values() if one.credential) | _OF_SYSTEMD
    named |= {variable for variable in environ if variable.startswith(_OF_TRACES)}
    probes = tuple(
        Probe(row.at(home), "frames") for row in served_by(name) if row.protocol == "frames" and row.client == "bxctl"
    )
    return Program(name, command, environment(environ, named if name == "egressd" else frozenset()), probes)


def _embedded_model(home: Path, environ: Mapping[str, str]) -> Program:
    path = socket("egress-model").at(home)
    command = module("boxmaker_model", "serve", "--socket", str(path))
    return Program(MODEL, command, environment(environ), (Probe(path, "http"),))


def _wants_embedded_model(model: Choice, rules: Rules) -> bool:
    """Whether new sessions use the embedded model; a `local` that the owner points elsewhere is the owner's to run."""
    local = rules.destinations.get(providers.LOCAL)
    return model.destination == providers.LOCAL and local is not None and local.base_url == providers.LOCAL_SOCKET
