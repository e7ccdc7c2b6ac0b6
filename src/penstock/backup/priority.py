"""Gives way to processes that collect: a low priority for CPU and disk."""

import ctypes
import os
import platform
from contextlib import suppress

_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
_WHO_PROCESS = 1
_BEST_EFFORT_LAST = (2 << 13) | 7
"""Not ``idle``: a disk that is never idle would stop the backup for ever."""
_NICE = 10
"""A tenth of the usual share of a busy CPU. With 19, the lowest, it would hardly get on."""


def give_way() -> None:
    """Lower the priority of this thread and of those that it starts. It cannot be raised again."""
    with suppress(OSError):
        os.nice(_NICE)
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).syscall(number, _WHO_PROCESS, 0, _BEST_EFFORT_LAST)
