"""Follows the log files of all processes of a data folder, also while they are rotated."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from penstock.monitor.log_tails import newest_files
from penstock.monitor.process_logs import LogFilter, LogLine, unreadable
from penstock.telemetry.rotated_file import OLD

_AT_ONCE = 1_000_000
"""Bytes that are read of one file at a time."""
_HEAD = 40
"""The time of the first line, which is longer, is among these bytes."""


class _Key(NamedTuple):
    """Identifies a file, whatever its name: the number of one that was removed is used again."""

    inode: int
    head: bytes


class _Part(NamedTuple):
    """What was appended to a file."""

    process: str
    key: _Key
    size: int
    """Of the whole file."""
    position: int
    data: bytes


class LogFollower:
    """Reads what was appended since the last call. It blocks."""

    def __init__(self, folder: Path, lines: LogFilter) -> None:
        """Begin with lines that are written from now on.

        Raises:
            StorageError: a file cannot be read.
        """
        self._folder, self._filter = folder, lines
        self._read_up_to: dict[_Key, int] = {}
        """The position in each file."""
        for part in self._parts():
            self._read_up_to[part.key] = part.size

    def new_lines(self) -> list[LogLine]:
        """The lines since the last call, by time.

        Raises:
            StorageError: a file cannot be read.
        """
        found, seen = list[LogLine](), dict[_Key, int]()
        for part in self._parts():
            if part.key in seen:  # it was rotated after it was read
                continue
            end = part.data.rfind(b"\n") + 1
            if not end and len(part.data) == _AT_ONCE:
                end = _AT_ONCE  # part of a line that is too long
            seen[part.key] = part.position + end
            lines = part.data[:end].split(b"\n")
            read = (self._filter.read(part.process, line) for line in lines)
            found += [line for line in read if line is not None]
        self._read_up_to = seen
        return sorted(found, key=lambda line: line.at_ms)

    def _parts(self) -> Iterator[_Part]:
        try:
            for process, path in newest_files(self._folder):
                for each in (path.with_name(path.name + OLD), path):
                    if (part := self._appended(process, each)) is not None:
                        yield part
        except OSError as error:
            raise unreadable(self._folder, error) from error

    def _appended(self, process: str, path: Path) -> _Part | None:
        """What was appended to a file; None if it is not there, or has no line yet."""
        try:
            with path.open("rb") as file:
                descriptor = file.fileno()
                there = os.fstat(descriptor)
                key = _Key(there.st_ino, os.pread(descriptor, _HEAD, 0))
                if len(key.head) < _HEAD:
                    return None
                start = self._read_up_to.get(key, 0)
                data = os.pread(descriptor, _AT_ONCE, start)
                return _Part(process, key, there.st_size, start, data)
        except FileNotFoundError:
            return None
