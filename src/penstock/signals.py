"""Handling of SIGHUP, from the start of a process.

SIGHUP makes a process reload its settings, but ends a process that has not installed a handler yet.
So it is caught before anything large is imported, and stored.
"""

import signal
from types import FrameType

INTERRUPTED = 130
"""The exit code after Ctrl-C, as in shells: 128 plus the signal's number."""
_came = False


def _remember(_number: int, _frame: FrameType | None) -> None:
    global _came  # noqa: PLW0603 - signals are the process's, and so is this
    _came = True


def catch_hangups() -> None:
    """Keep SIGHUP from ending the process; unless it is ignored already, as under ``nohup``."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, _remember)


def take_hangup() -> bool:
    """Return whether SIGHUP was received since the last call."""
    global _came
    came, _came = _came, False
    return came


def obey_hangups() -> None:
    """Let SIGHUP end this process again: it serves a terminal, which may be closed."""
    if signal.getsignal(signal.SIGHUP) is _remember:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        if take_hangup():
            signal.raise_signal(signal.SIGHUP)
