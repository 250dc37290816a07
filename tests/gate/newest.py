"""Runs the tests on Python 3.13, in an environment of its own; where there is no such Python, says so and passes.

Floods, kills, the laws of the tree and the host of its own ran just before on the oldest Python: they take minutes, and
what they show does not depend on the interpreter. `python -m tests.gate.newest make|test`.
"""

import subprocess
import sys

from tests.gate.steps import PYTEST

NO_SUCH_PYTHON = 3  # environment.sh's exit status


def main(what: str) -> int:
    """Make the environment, or test in it. Exit status: that of the command, or 0 where this machine has no 3.13."""
    made = subprocess.run(["tests/gate/environment.sh", ".venv-3.13", "3.13"], check=False).returncode
    if made == NO_SUCH_PYTHON:
        print("the tests do NOT run on Python 3.13: there is none here")
        return 0
    if made or what == "make":
        return made
    tests = [
        ".venv-3.13/bin/python",
        "-m",
        *PYTEST,
        "--ignore=tests/shape",
        "-m",
        "not peers and not kill and not slow",
    ]
    return subprocess.run(tests, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
