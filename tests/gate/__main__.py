"""The gate: every check that a change must pass, in the order in which they are cheap. `python -m tests.gate [STEP …]`.

A step that fails does not stop the others: one run names everything that is wrong. No step may leave a process behind; one
that does fails, and what it left is ended.
"""

import signal
import subprocess
import sys
import time

from tests.gate import orphans
from tests.gate.steps import STEPS, Step


def run(step: Step) -> bool:
    """Run one step with its output passed on; True when it passed."""
    print(f"\n── {step.name}: {step.why}", flush=True)
    started_s = time.monotonic()
    codes = {command: subprocess.run(command, check=False).returncode for command in step.commands}
    failed = {command: code for command, code in codes.items() if code}
    left = orphans.end_all()
    for name in left:
        print(f"left running, and ended: {name}")
    for command, code in failed.items():
        print(f"failed with {code if code > 0 else signal.Signals(-code).name}: {' '.join(command)}")
    passed = not failed and not left
    print(
        f"── {step.name}: {'passed' if passed else 'FAILED'} in {time.monotonic() - started_s:.0f} s",
        flush=True,
    )
    return passed


def main(names: list[str]) -> int:
    """Run the named steps, or all. Returns the exit status: 0 when each one passed."""
    unknown = sorted(set(names) - {step.name for step in STEPS})
    if unknown:
        print(f"no such step: {', '.join(unknown)}; there are {', '.join(step.name for step in STEPS)}")
        return 2
    orphans.adopt()
    failed = [step.name for step in STEPS if (not names or step.name in names) and not run(step)]
    print(f"\nthe gate is closed: {', '.join(failed)}" if failed else "\nthe gate is open")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
