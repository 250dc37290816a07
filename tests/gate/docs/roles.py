"""docs/roles.md: the manual page that each daemon's package begins with."""

import importlib

from tests.gate.docs import text

DAEMONS = ("memoryd", "brokerd", "egressd", "loopd", "boxmaker_model")
HEADINGS = ("OWNS", "READS", "ANSWERS", "CALLS", "NEVER", "FAULTS")


def page() -> str:
    """The page."""
    parts = [
        text.GENERATED,
        "# The daemons",
        "What each one owns, reads, answers, calls and never does.",
    ]
    for daemon in DAEMONS:
        parts.append(f"## {daemon.replace('_', '-')}")
        parts.append(f"```text\n{text.doc(importlib.import_module(daemon))}\n```")
    return "\n\n".join(part.strip() for part in parts) + "\n"
