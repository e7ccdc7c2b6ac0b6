"""A nursery for workers: it has everything imported, and forks one for every line it reads.

A worker that is killed every second would otherwise do little but start. The line is the file to
write its stderr to, and after tabs the words of another command than ``work``; the answer is its
process id. Nobody but the kernel hears of its end.
"""

import os
import signal
import sys

from penstock.cli import main


def live(errors: str, *words: str) -> None:
    """The life of one worker, or of another command: as it is, from here on."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    sys.argv = ["penstock", *(words or ["work"])]
    main()


def serve() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while line := sys.stdin.readline():
        child = os.fork()
        if child == 0:
            live(*line.rstrip("\n").split("\t"))
            return
        print(child, flush=True)


if __name__ == "__main__":
    serve()
