"""Memory that is given back.

The log's write buffers and a simulator's answers come and go by the megabyte. Where the C library
keeps such pieces among the small ones, as it does once it has seen a few of them, others settle in
between, and a process that runs for weeks takes a little more with every hour.
"""

import ctypes
import gc
from contextlib import suppress

_MMAP_THRESHOLD = -3
"""What ``mallopt`` calls the size from which pieces are had from the system, one by one."""
_LARGE_BYTES = 256 * 1024


def give_back_large_pieces() -> None:
    """Have large pieces from the system and give them back at once, where the C library can."""
    with suppress(OSError, AttributeError):  # not glibc's
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)


def keep_for_good() -> None:
    """Leave what is there now out of every later search for garbage.

    A simulator's markets stay as long as it runs. To search them takes longer than to answer most
    questions, and nobody is answered meanwhile.
    """
    gc.collect()
    gc.freeze()
