"""Runs a command that the kernel kills when its parent ends: ``python tied.py PARENT COMMAND…``.

So a supervisor that is killed leaves no process behind. Run as a file, and imports nothing of
penstock: it takes a few milliseconds and becomes the command.
"""

import ctypes
import os
import signal
import sys

_SET_PDEATHSIG = 1
"""Of ``prctl``: the signal that a process gets when its parent ends; kept by ``exec``."""


def main() -> None:
    """Tie this process to its parent, and become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606 (the supervisor's own command)


if __name__ == "__main__":
    main()
