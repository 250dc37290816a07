"""What the daemons would say to their settings: each reads its own file, in one process of its own that starts nothing.

bxctl imports no daemon; the process does.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from bxctl.supervise.plan import DAEMONS, environment

_SECONDS: Final = 30.0
_READER: Final = """
import importlib, json, pathlib, sys
from proto.faults import Fault
from proto.role.config import load
said = {}
for name in sys.argv[1:]:
    path = pathlib.Path(name)
    try:
        load(path, importlib.import_module(f"{path.stem}.config").Config)
    except Fault as fault:
        said[name] = fault.message
print(json.dumps(said))
"""


def daemons_say(paths: list[Path]) -> dict[Path, str]:
    """What is wrong with each of these files of config/, by its daemon; those of no daemon are left out."""
    names = [str(path) for path in paths if path.stem in DAEMONS]
    command = (sys.executable, "-P", "-c", _READER, *names)
    try:
        done = subprocess.run(
            command, env=environment(os.environ), cwd="/", capture_output=True, check=True, timeout=_SECONDS
        )
        return {Path(name): said for name, said in json.loads(done.stdout).items()}
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return {Path(name): f"its daemon could not be asked about it: {error}" for name in names[:1]}
