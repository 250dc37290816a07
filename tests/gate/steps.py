"""The steps of the gate, as a table."""

import os
import sys
from typing import NamedTuple


class Step(NamedTuple):
    """One row: commands that must all exit 0."""

    name: str
    why: str
    commands: tuple[tuple[str, ...], ...]
    beside: bool = False
    """Whether it may run side by side with the steps before and behind it that may, too."""


def _module(*words: str) -> tuple[str, ...]:
    """A command of this environment, run as a module: no script of another environment can come first on PATH."""
    return (sys.executable, "-m", *words)


PYTEST = ("pytest", "-q", "-n", "3", "--dist", "worksteal")

STEPS = (
    Step("format", "one hand", (_module("ruff", "format", "--check", "--quiet", "."),)),
    Step(
        "lint",
        "every rule, but those left out with a reason",
        (_module("ruff", "check", "--quiet", "."),),
    ),
    Step("types", "mypy --strict", (_module("mypy"),), beside=True),
    Step(
        "host",
        "the units on a real systemd, of which only one may run",
        (_module("pytest", "-q", "-m", "host", "tests/deploy"),),
        beside=True,
    ),
    Step(
        "imports",
        "daemons meet only in proto; dangerous packages have one door",
        ((os.path.join(os.path.dirname(sys.executable), "lint-imports"), "--no-cache"),),
        beside=True,
    ),
    Step(
        "generated",
        "the generated files say what the source says",
        (_module("tests.gate.docs", "--check"),),
        beside=True,
    ),
    Step("dead", "no code that nobody calls", (_module("tests.gate.dead"),), beside=True),
    Step("shape", "the laws of the tree", (_module("pytest", "-q", "tests/shape"),), beside=True),
    Step(
        "python-3.13",
        "an environment of the newest Python that is promised",
        (_module("tests.gate.newest", "make"),),
        beside=True,
    ),
    Step(
        "tests",
        "with coverage, on this Python",
        (
            _module(
                *PYTEST,
                "--durations=15",
                "-m",
                "not peers and not host",
                "--ignore=tests/shape",
                "--cov",
                "--cov-report=term",
            ),
        ),
    ),
    Step(
        "tests-3.13",
        "without coverage, on the newest Python that is promised",
        (_module("tests.gate.newest", "test"),),
    ),
)
