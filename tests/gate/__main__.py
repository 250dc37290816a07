"""The gate: every check that a change must pass, in the order in which they are cheap. `python -m tests.gate [STEP …]`.

A step that fails does not stop the others: one run names everything that is wrong. No step may leave a process behind; one
that does fails, and what it left is ended. Steps that may run side by side do, two at once, and each shows its output
when it has ended.
"""

import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from tests.gate import orphans
from tests.gate.steps import STEPS, Step

_AT_ONCE = 2


def run(step: Step) -> bool:
    """Run one step with its output passed on; True when it passed."""
    print(f"\n── {step.name}: {step.why}", flush=True)
    started_s = time.monotonic()
    codes = {command: subprocess.run(command, check=False).returncode for command in step.commands}
    left = _ended()
    _say_failed(codes)
    return _say_passed(step, time.monotonic() - started_s, passed=not any(codes.values()) and not left)


def run_beside(steps: list[Step]) -> Iterator[tuple[str, bool]]:
    """Run steps side by side; each with whether it passed, and last what they left running, if they did."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for step, (codes, output, seconds) in zip(steps, pool.map(_kept, steps), strict=True):
            print(f"\n── {step.name}: {step.why}\n{output}", end="", flush=True)
            _say_failed(codes)
            yield step.name, _say_passed(step, seconds, passed=not any(codes.values()))
    if _ended():
        yield "what was left running", False


def _kept(step: Step) -> tuple[dict[tuple[str, ...], int], str, float]:
    """A step's exit codes, its output, and how long it took in seconds."""
    started_s, codes, output = time.monotonic(), {}, ""
    for command in step.commands:
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        codes[command] = done.returncode
        output += done.stdout
    return codes, output, time.monotonic() - started_s


def _ended() -> list[str]:
    left = orphans.end_all()
    for name in left:
        print(f"left running, and ended: {name}")
    return left


def _say_failed(codes: dict[tuple[str, ...], int]) -> None:
    for command, code in codes.items():
        if code:
            print(f"failed with {code if code > 0 else signal.Signals(-code).name}: {' '.join(command)}")


def _say_passed(step: Step, seconds: float, *, passed: bool) -> bool:
    print(f"── {step.name}: {'passed' if passed else 'FAILED'} in {seconds:.0f} s", flush=True)
    return passed


def main(names: list[str]) -> int:
    """Run the named steps, or all. Returns the exit status: 0 when each one passed."""
    unknown = sorted(set(names) - {step.name for step in STEPS})
    if unknown:
        print(f"no such step: {', '.join(unknown)}; there are {', '.join(step.name for step in STEPS)}")
        return 2
    orphans.adopt()
    failed: list[str] = []
    chosen = [step for step in STEPS if not names or step.name in names]
    for beside, group in itertools.groupby(chosen, key=lambda step: step.beside):
        steps = list(group)
        results = run_beside(steps) if beside else ((step.name, run(step)) for step in steps)
        failed += [name for name, passed in results if not passed]
    print(f"\nthe gate is closed: {', '.join(failed)}" if failed else "\nthe gate is open")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
