"""The command `loopd`."""

import sys

from loopd import app
from proto.role.main import main as run_daemon

ABOUT = "Runs sessions: the turn loop between the owner, the model and the tools."


def main() -> int:
    """Run the daemon; its exit code."""
    return run_daemon("loopd", ABOUT, app.run)


if __name__ == "__main__":
    sys.exit(main())
