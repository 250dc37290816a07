"""`python -I -S tie.py PARENT COMMAND …`: become COMMAND, and get SIGTERM when PARENT ends, however it ends.

Run before each daemon, so that a supervisor that was killed leaves none behind. Standard library alone: it runs without
the packages of the environment, in a few milliseconds.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    # Neither a program nor a library that lies in the folder of whoever called bxctl is the box's.
    os.chdir("/")
    if os.getppid() == int(sys.argv[1]):
        os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606  (no shell is what is wanted)
