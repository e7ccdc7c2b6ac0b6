"""Memory settings of long-running processes.

The log's write buffers and a simulator's responses are allocated and freed by the megabyte. After a
few of them the C library raises its mmap threshold and places them on the heap among small
allocations. The heap then fragments, and a process that runs for weeks grows a little every hour.
"""

import ctypes
import gc
from contextlib import suppress

_MMAP_THRESHOLD = -3
"""The ``mallopt`` parameter for the size from which each allocation is mapped separately."""
_LARGE_BYTES = 256 * 1024


def give_back_large_pieces() -> None:
    """Map large allocations separately, so that they are returned to the system when freed."""
    with suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)


def keep_for_good() -> None:
    """Exclude all existing objects from later garbage collections.

    Modules, and a simulator's markets, exist as long as the process runs. Scanning them takes
    longer than most requests, and blocks all others meanwhile.
    """
    gc.collect()
    gc.freeze()
