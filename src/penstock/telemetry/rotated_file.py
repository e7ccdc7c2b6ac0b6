"""A bounded file of lines: when it is full it replaces the one before, and a new one begins."""

import os
from pathlib import Path

OLD = ".1"
"""Appended to the name of the file before."""


class RotatedFile:
    """Appends lines to a file. For one thread.

    Nothing is synced. After a crash, or if the disk was full, the last line may be incomplete; the
    next one begins on a line of its own.
    """

    def __init__(self, path: Path, most_bytes: int) -> None:
        """Both files together take up to ``most_bytes``."""
        self._path, self._old = path, path.with_name(path.name + OLD)
        self._most = max(1, most_bytes // 2)
        self._descriptor: int | None = None
        self._size = 0

    def append(self, lines: bytes) -> None:
        """Append lines, each with its line break.

        Raises:
            OSError: they cannot be written, or not all of them.
        """
        try:
            descriptor = self._opened()
            if self._size and self._size + len(lines) > self._most:
                self.close()
                self._path.replace(self._old)
                descriptor = self._opened()
            left = memoryview(lines)
            while left:
                written = os.write(descriptor, left)
                self._size += written
                left = left[written:]
        except OSError:
            self.close()  # opened again, the end of the file is checked
            raise

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _opened(self) -> int:
        if self._descriptor is not None and not self._is_current(self._descriptor):
            self.close()  # it was removed, or another process replaced it
        if self._descriptor is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o644)
            self._size = os.fstat(self._descriptor).st_size
            if self._size and os.pread(self._descriptor, 1, self._size - 1) != b"\n":
                self._size += os.write(self._descriptor, b"\n")
        return self._descriptor

    def _is_current(self, descriptor: int) -> bool:
        try:
            there, ours = self._path.stat(), os.fstat(descriptor)
        except FileNotFoundError:
            return False
        return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)
