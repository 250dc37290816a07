"""As whom bxctl goes to a home: always as the user whose home it is, so that nothing in it becomes another's."""

import os
import pwd
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proto.faults import Fault
from proto.home import SYSTEM_HOME


def become(home: Path, argv: list[str]) -> None:
    """Be the home's user from here on, if it is another's: root changes, anybody else asks sudo on a system install.

    Raises:
        Fault: `peer-refused`: this user may not; the sentence has the command. `start-failed`: the owner cannot either.

    """
    owner = _owner(home, argv)
    if owner is None:
        return
    if os.geteuid() == 0:
        _change(home, owner)
    elif home == SYSTEM_HOME:
        _again(home, owner, argv)
    else:
        raise _refused(home, owner, argv)


@contextmanager
def lent(home: Path) -> Iterator[None]:
    """Let root be the home's user inside the block, where it must be root again after.

    A home is that user's to fill, with links to what is not his as well: whoever opens a path in it is to have no more
    rights than he has.
    """
    if os.geteuid() != 0 or not home.exists():
        yield
        return
    owner, groups = home.stat(), os.getgroups()
    os.setgroups([owner.st_gid])
    os.setegid(owner.st_gid)
    os.seteuid(owner.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def _owner(home: Path, argv: list[str]) -> pwd.struct_passwd | None:
    """The user of a home that is there and is another's."""
    try:
        uid = home.stat().st_uid
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError:
        raise _refused(home, _first_other(home), argv) from None
    except OSError as error:
        raise Fault("home-missing", f"{home}: {error.strerror or error}") from None
    return None if uid == os.geteuid() else _known(home, uid)


def _known(home: Path, uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise Fault("home-missing", f"{home} belongs to a user that is not known here ({uid})") from None


def _first_other(home: Path) -> pwd.struct_passwd:
    """The user of the folder on the way to a home that cannot be entered."""
    for folder in home.parents:
        try:
            return _known(folder, folder.stat().st_uid)
        except OSError:
            continue
    return _known(Path("/"), 0)


def _refused(home: Path, owner: pwd.struct_passwd, argv: list[str]) -> Fault:
    command = shlex.join(["sudo", "-u", owner.pw_name, "bxctl", *_words(home, argv)])
    return Fault("peer-refused", f"the box at {home} is another user's ({owner.pw_name}); as that user: {command}")


def _words(home: Path, argv: list[str]) -> list[str]:
    """The line with its home in it: the other user may have one of his own, which would be found first."""
    named = any(word == "--home" or word.startswith("--home=") for word in argv)
    return argv[1:] if named else ["--home", str(home), *argv[1:]]


def _change(home: Path, owner: pwd.struct_passwd) -> None:
    os.initgroups(owner.pw_name, owner.pw_gid)
    os.setgid(owner.pw_gid)
    os.setuid(owner.pw_uid)
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        del os.environ[name]
    os.environ.update(HOME=owner.pw_dir, USER=owner.pw_name, LOGNAME=owner.pw_name, BOXMAKER_HOME=str(home))
    if not os.access(sys.executable, os.X_OK):
        raise Fault(
            "start-failed", f"{home} is {owner.pw_name}'s, who may not run {sys.executable}; install it for all"
        )


def _again(home: Path, owner: pwd.struct_passwd, argv: list[str]) -> None:
    line = ["sudo", "-u", owner.pw_name, "--", argv[0], *_words(home, argv)]
    try:
        os.execvp("sudo", line)  # noqa: S606, S607  (no shell is what is wanted)
    except OSError as error:
        reason = error.strerror or error
        raise Fault(
            "peer-refused",
            f"the box at {home} is another user's ({owner.pw_name}), and sudo cannot be run ({reason}); "
            "run bxctl as that user, or as root",
        ) from None
