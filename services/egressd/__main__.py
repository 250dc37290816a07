"""The entry point: `egressd serve`."""

import sys

from egressd import app
from proto.role import main as role

ABOUT = "Relays model calls, fetches what brokerd decided, and meters both."


def main() -> int:
    """Run the daemon; its exit code."""
    return role.main("egressd", ABOUT, app.run)


if __name__ == "__main__":
    sys.exit(main())
