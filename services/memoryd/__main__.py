"""The entry point of memoryd."""

import sys

from memoryd import app
from proto.role import main as role


def main() -> int:
    """Run memoryd until it is told to stop; its exit code."""
    return role.main("memoryd", "Owns everything that the box remembers, and answers from it.", app.run)


if __name__ == "__main__":
    sys.exit(main())
