"""The exit codes of every command, which scripts may rely on."""

from typing import Final

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
PROBLEMS: Final = 4
INTERRUPTED: Final = 130

MEANINGS: Final = {
    OK: "done",
    FAILED: "refused or failed; the sentence is on standard error",
    USAGE: "the command line is wrong",
    UNREACHABLE: "a daemon does not answer",
    PROBLEMS: "what was looked at has problems: verify, doctor, grants, policy, prices, backup",
    INTERRUPTED: "stopped by ^C",
}

_UNREACHABLE_CODES: Final = frozenset({"peer-unreachable"})


def of_fault(code: str) -> int:
    """The exit code of a fault's code."""
    return UNREACHABLE if code in _UNREACHABLE_CODES else FAILED
