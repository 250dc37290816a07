"""Runs the tests on Python 3.13, in an environment of its own; where there is no such Python, says so and passes.

Floods, kills and the host of its own ran just before on the oldest Python: they take minutes, and what they show does not
depend on the interpreter.
"""

import subprocess
import sys

NO_SUCH_PYTHON = 3  # environment.sh's exit status


def main() -> int:
    """Exit status: pytest's, or 0 where this machine has no 3.13."""
    made = subprocess.run(["tests/gate/environment.sh", ".venv-3.13", "3.13"], check=False).returncode
    if made == NO_SUCH_PYTHON:
        print("the tests did NOT run on Python 3.13: there is none here")
        return 0
    if made:
        return made
    tests = [".venv-3.13/bin/python", "-m", "pytest", "-q", "-n", "3", "--dist", "worksteal"]
    tests += ["-m", "not peers and not kill and not slow"]
    return subprocess.run(tests, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
