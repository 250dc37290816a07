"""Resolves the dependencies of pyproject.toml into requirements.lock: `make lock`.

Runtime, embedded model and tools are one lock, good for 3.11 and every later Python. It names no index address, so that
each machine installs from the index it is set up for.
"""

import subprocess
import sys

RESOLVE = (
    *("uv", "pip", "compile", "pyproject.toml", "--extra", "model", "--group", "dev"),
    *("--universal", "--python-version", "3.11"),
    *("--generate-hashes", "--no-emit-index-url", "--custom-compile-command", "make lock"),
    *("--upgrade", "--quiet", "--output-file", "requirements.lock"),
)

if __name__ == "__main__":
    sys.exit(subprocess.run([sys.executable, "-m", *RESOLVE], check=False).returncode)
