"""Local sockets as files with permissions, at paths of any length.

The kernel accepts socket paths of up to 107 bytes. A longer path is opened through a descriptor of
its folder, so the socket is an ordinary file, and its permissions control access.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.errors import BusUnreachable, ConfigError

_LONGEST = 100
"""Below the kernel's limit of 107 bytes."""
_DESCRIPTORS = Path("/proc/self/fd")
_folders: dict[tuple[int, int], int] = {}
"""Descriptors by device and inode; they stay open, since ZeroMQ may reconnect at any time."""


def socket_file(endpoint: str) -> Path | None:
    """Return the file of an endpoint, if it has one."""
    path = endpoint.removeprefix("ipc://")
    return None if path == endpoint or path.startswith("@") else Path(path)


def short_endpoint(endpoint: str) -> str:
    """Return the same endpoint with a path that is short enough for the kernel.

    Raises:
        ConfigError: there is no such path.
        BusUnreachable: there is no such path while the folder, and so the bus, does not exist.
    """
    path = socket_file(endpoint)
    if path is None or len(os.fsencode(path)) <= _LONGEST:
        return endpoint
    path = path.absolute()
    folder = next(each for each in path.parents if each.is_dir())
    try:
        short = f"{_DESCRIPTORS}/{_open(folder)}/{path.relative_to(folder)}"
    except OSError as error:
        raise _wrong(f"cannot reach {path}: {error.strerror}.") from error
    if folder != path.parent and len(os.fsencode(short)) > _LONGEST:
        raise BusUnreachable(endpoint)
    if not _DESCRIPTORS.is_dir() or len(os.fsencode(short)) > _LONGEST:
        raise _wrong(
            f"the path {path} is too long for a socket. Use a data folder with a shorter path, or"
            " set bus.publish and bus.subscribe to ipc://FILE with shorter ones."
        )
    return f"ipc://{short}"


def _open(folder: Path) -> int:
    found = folder.stat()
    place = (found.st_dev, found.st_ino)
    if place not in _folders:
        _folders[place] = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    return _folders[place]


@contextmanager
def private_files() -> Iterator[None]:
    """Create files for their owner only, and for the group if the umask lets it write."""
    before = os.umask(0o177)
    try:
        if not before & 0o020:
            os.umask(0o117)
        yield
    finally:
        os.umask(before)


def _wrong(problem: str) -> ConfigError:
    return ConfigError("bus", problem=problem, origin="settings")
