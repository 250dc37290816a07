"""`brokerd serve`."""

import sys

import proto.role.main
from brokerd import app

ABOUT = "Decides every tool call and every byte that leaves, and holds the label of every session."


def main() -> int:
    """Run the daemon; its exit code."""
    return proto.role.main.main("brokerd", ABOUT, app.run)


if __name__ == "__main__":
    sys.exit(main())
