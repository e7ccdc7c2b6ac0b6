"""Files that may be open at once.

Whoever follows a log keeps all its tables open, some fifteen for each gigabyte, and a shell allows
its programs a thousand files unless they ask for more.
"""

import resource
from contextlib import suppress


def take_all_descriptors() -> None:
    """Have as many files open as the system lets this process have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # "no limit" is more than some systems take
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
