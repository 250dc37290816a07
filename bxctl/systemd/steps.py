"""What an installation does, step by step, each of which can be said without being done.

Every step may be done again: what is there already, and as it should be, stays.
"""

import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from bxctl.systemd import environment
from bxctl.systemd.units import LIVES, TARGET, USER, Place, files, passive
from proto.faults import Fault

_SECONDS: Final = 180.0
_RUNNING: Final = Path("/run/systemd/system")


class Folders(NamedTuple):
    """Where the files of a flavour go, and where `bxctl` is linked to."""

    units: Path
    sysusers: Path
    tmpfiles: Path
    programs: Path


class Step(NamedTuple):
    """A sentence, and what does it."""

    about: str
    act: Callable[[], None]


def folders(place: Place) -> Folders:
    """The folders of a flavour: for the system those of what an administrator installs, which no package touches."""
    if not place.user:
        lib = Path("/usr/local/lib")
        return Folders(lib / "systemd/system", lib / "sysusers.d", lib / "tmpfiles.d", Path("/usr/local/bin"))
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser())
    return Folders(
        config / "systemd/user", config / "sysusers.d", config / "user-tmpfiles.d", Path("~/.local/bin").expanduser()
    )


def install(place: Place, owner: str, *, model: bool, start: bool) -> Iterator[Step]:
    """The steps of an installation."""
    prefix, where = Path(place.prefix), folders(place)
    yield Step(
        f"copy the programs to {prefix}",
        lambda: _say_nothing(environment.copy(prefix, shared=not place.user, model=model)),
    )
    for name, text in files(place).items():
        path = path_of(name, where)
        yield Step(f"write {path}", lambda path=path, text=text: _write(path, text))  # type: ignore[misc]
    command = where.programs / "bxctl"
    yield Step(f"link {command}", lambda: _link(command, prefix / "bin" / "bxctl"))
    if not place.user:
        yield _run("make the user boxmaker", "systemd-sysusers", str(where.sysusers / "boxmaker.conf"))
    mode = ("--user",) if place.user else ()
    yield _run(
        f"make the folders of {place.home}",
        "systemd-tmpfiles", *mode, "--create", str(where.tmpfiles / "boxmaker.conf"),
    )  # fmt: skip
    yield Step(f"put the owner's files into {place.home}", lambda: _init(place, owner))
    if is_running(place):
        yield _systemctl(place, "read the units", "daemon-reload")
        begins = "when you log in" if place.user else "with the machine"
        yield _systemctl(place, f"start the box {begins}", "enable", TARGET)
        if start:
            yield _systemctl(place, "start the box", "restart", TARGET)
            yield _systemctl(place, "see that it runs", "is-active", "--quiet", *LIVES)


def uninstall(place: Place) -> Iterator[Step]:
    """The steps that take an installation away; the home and its user stay."""
    prefix, where = Path(place.prefix), folders(place)
    if is_running(place):
        yield _systemctl(place, "stop the box", "disable", "--now", TARGET, *passive(), check=False)
    for name in files(place):
        path = path_of(name, where)
        yield Step(f"remove {path}", lambda path=path: path.unlink(missing_ok=True))  # type: ignore[misc]
    yield Step(f"remove {where.programs / 'bxctl'}", lambda: _unlink(where.programs / "bxctl", prefix))
    yield Step(f"remove {prefix}", lambda: shutil.rmtree(prefix, ignore_errors=True))
    if is_running(place):
        yield _systemctl(place, "forget the units", "daemon-reload")


def path_of(name: str, where: Folders) -> Path:
    """Where a file of `units.files` goes."""
    folder, _, file = name.rpartition("/")
    return {"": where.units, "sysusers.d": where.sysusers, "tmpfiles.d": where.tmpfiles}[folder] / file


def is_running(place: Place) -> bool:
    """Whether there is a systemd to speak to."""
    return Path(_runtime_folder(), "systemd").is_dir() if place.user else _RUNNING.is_dir()


def _runtime_folder() -> str:
    """Where a user's service manager is spoken to; a shell got by `su` does not name it."""
    return os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"


def _run(about: str, *command: str, check: bool = True) -> Step:
    def act() -> None:
        try:
            environ = {**os.environ, "XDG_RUNTIME_DIR": _runtime_folder()}
            done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=_SECONDS, env=environ)
        except OSError as error:
            raise Fault("install-failed", f"{command[0]} cannot be run: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise Fault(
                "install-failed", f"{about}: not within {_SECONDS:.0f} s; bxctl doctor says what is wrong"
            ) from None
        if check and done.returncode:
            said = " ".join(done.stderr.split()) or "it failed; see: bxctl doctor"
            raise Fault("install-failed", f"{' '.join(command)}: {said}")

    return Step(f"{about}: {' '.join(command)}", act)


def _systemctl(place: Place, about: str, *words: str, check: bool = True) -> Step:
    return _run(about, "systemctl", *(("--user",) if place.user else ()), *words, check=check)


def _write(path: Path, text: str) -> None:
    """Write a file that everybody may read, at once and only if it is another."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    made = path.with_name(f".{path.name}.new")
    made.write_text(text, encoding="utf-8")
    made.chmod(0o644)
    made.rename(path)


def _link(path: Path, target: Path) -> None:
    """Link a command; a program of that name that is not ours stays, and is told of."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if path.is_symlink() and os.readlink(path) == str(target):
        return
    if os.path.lexists(path):
        raise Fault("install-failed", f"{path} is there and is not ours; move it away")
    path.symlink_to(target)


def _unlink(path: Path, prefix: Path) -> None:
    if path.is_symlink() and os.readlink(path).startswith(f"{prefix}/"):
        path.unlink()


def _init(place: Place, owner: str) -> None:
    """What is not for every daemon put apart, then `bxctl init`; as the user of the home, who alone may write there."""
    user = None if place.user else _the_user()
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "XDG_DATA_HOME") if name in os.environ}
    for words in (
        ("bxctl.systemd.apart", place.home),
        ("bxctl.cli", "--home", place.home, "init", "--owner", owner),
    ):
        command = (f"{place.prefix}/bin/python", "-I", "-m", *words)
        done = subprocess.run(
            command,
            cwd="/",
            env=kept if user is None else {"PATH": kept.get("PATH", os.defpath), "HOME": place.home},
            check=False,
            capture_output=True,
            text=True,
            user=user and user.pw_uid,
            group=user and user.pw_gid,
            extra_groups=user and [],
        )
        if done.returncode:
            raise Fault("install-failed", f"{' '.join(command)}: {' '.join(done.stderr.split())}")


def _the_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(USER)
    except KeyError:
        raise Fault("install-failed", f"systemd-sysusers made no user {USER}") from None


def _say_nothing(_: int) -> None:
    """A step gives nothing back."""
