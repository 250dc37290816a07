"""Repairs what can be repaired without thought, then writes the generated files again: `make fix`."""

import subprocess
import sys

COMMANDS = (
    ("ruff", "check", "--fix", "--quiet", "."),
    ("ruff", "format", "--quiet", "."),
    ("proto.schema",),
    ("tests.gate.docs",),
    ("tests.deploy.units",),
)

if __name__ == "__main__":
    sys.exit(max(subprocess.run([sys.executable, "-m", *words], check=False).returncode for words in COMMANDS))
