"""Raises the limit of open files.

A reader that follows a log keeps all its tables open, some fifteen per gigabyte, and the default
limit of a shell is about a thousand files.
"""

import resource
from contextlib import suppress


def take_all_descriptors() -> None:
    """Set this process's limit of open files to the maximum that the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # some systems reject "no limit"
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
