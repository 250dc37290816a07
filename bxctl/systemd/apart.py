"""Puts apart what is not for every daemon that sees a home's top folder: `python -m bxctl.systemd.apart HOME`.

Such a file lies in `local/`, and the top folder has a link to it (see `view`). Run as the user of the home.
"""

import os
import sys
from pathlib import Path

from bxctl.systemd.view import APART, LOCAL


def put_apart(home: Path) -> list[str]:
    """Make each such name a link; the names of those whose files were moved for it."""
    moved = []
    for name in APART:
        path, target = home / name, home / LOCAL / name
        if path.is_symlink():
            continue
        if path.exists():
            if target.exists():
                # The one in the top folder is the one that was read last.
                target.rename(target.with_name(f"{name}.before"))
            path.rename(target)
            moved.append(name)
        path.symlink_to(f"{LOCAL}/{name}")
    return moved


if __name__ == "__main__":
    os.umask(0o077)
    for found in put_apart(Path(sys.argv[1])):
        sys.stdout.write(f"{found} lies in {LOCAL}/ now\n")
