"""Writes `deploy/systemd` as `bxctl.systemd.units` makes it for the usual places: `python -m tests.deploy.units`."""

import shutil
from pathlib import Path
from typing import Final

from bxctl.systemd.units import OWN, SYSTEM, files
from tests.shape import tree

FOLDER: Final = tree.ROOT / "deploy" / "systemd"


def written() -> dict[Path, str]:
    """Every file of the folder, as it should be."""
    return {FOLDER / place.flavour / name: text for place in (SYSTEM, OWN) for name, text in files(place).items()}


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    for path, text in written().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
