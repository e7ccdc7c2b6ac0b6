"""SIGHUP, from the first instant of a process on.

It asks a process to read its settings again, and would end one that has not said yet that it wants
to know of it. So it is caught before anything large is imported, and remembered.
"""

import signal
from types import FrameType

INTERRUPTED = 130
"""The exit code of what was ended by Ctrl-C, as shells count: 128 and the signal's number."""
_came = False


def _remember(_number: int, _frame: FrameType | None) -> None:
    global _came  # noqa: PLW0603 - signals are the process's, and so is this
    _came = True


def catch_hangups() -> None:
    """From now on SIGHUP ends nothing; unless it is ignored already, as under ``nohup``."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, _remember)


def take_hangup() -> bool:
    """Whether SIGHUP came since this was last asked."""
    global _came
    came, _came = _came, False
    return came


def obey_hangups() -> None:
    """Let SIGHUP end this process again: it serves a terminal, which may be closed."""
    if signal.getsignal(signal.SIGHUP) is _remember:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        if take_hangup():
            signal.raise_signal(signal.SIGHUP)
