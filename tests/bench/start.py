"""How fast the owner's commands start, as a multiple of the interpreter's own start."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.e2e.box import running

_ROUNDS: Final = 15
_BIN: Final = Path(sys.executable).parent


def _median_ms(*command: str, environ: dict[str, str] | None = None) -> float:
    """The median time of a command, in milliseconds."""
    times = []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environ)
        times.append((time.perf_counter() - started) * 1e3)
    return sorted(times)[_ROUNDS // 2]


def measure() -> list[str]:
    """The lines of the report."""
    with tempfile.TemporaryDirectory(prefix="bx") as folder:
        home = Path(folder)
        environ = {**os.environ, "BOXMAKER_HOME": folder}
        with running(home, "memoryd"):
            bare = _median_ms(str(_BIN / "python"), "-c", "pass")
            shown = _median_ms(str(_BIN / "bxctl"), "--help")
            listed = _median_ms(str(_BIN / "bxctl"), "memory", "log", environ=environ)
    return [
        (
            f"python -c pass  {bare:8.0f} ms   bxctl --help {shown:.0f} ms, ratio {shown / bare:.1f}   "
            f"bxctl memory log {listed:.0f} ms, ratio {listed / bare:.1f} (at most 10)"
        )
    ]
