"""What loopd keeps, brought from an older format of the home to the next."""

import os
from pathlib import Path
from typing import Final

from proto.role import durable
from proto.role.migration import Step

_BEFORE: Final = "state/loopd/marks"
_NOW: Final = "state/loopd/turns"


def _marks_to_turns(home: Path) -> None:
    """Format 0 kept the marks of turns in a folder of another name."""
    before, now = home / _BEFORE, home / _NOW
    if not before.is_dir():
        return
    durable.make_folder(now)
    for path in sorted(before.iterdir()):
        os.rename(path, now / path.name)
    durable.sync_folder(now)
    os.rmdir(before)
    durable.sync_folder(before.parent)


STEPS: Final = {0: Step(touches=(_BEFORE,), bring=_marks_to_turns)}
"""The steps, by the format that each begins at."""
