"""Follows the log files of all processes of a data folder, also while they are rotated."""

import os
from pathlib import Path
from typing import NamedTuple

from penstock.monitor.log_tails import newest_files
from penstock.monitor.process_logs import LogFilter, LogLine
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

    key: _Key
    position: int
    data: bytes


class LogFollower:
    """Reads what was appended since the last call. It blocks."""

    def __init__(self, folder: Path, lines: LogFilter) -> None:
        """Begin with lines that are written from now on."""
        self._folder, self._filter = folder, lines
        self._read_up_to: dict[_Key, int] = {}
        """The position in each file."""
        for _, path in newest_files(folder):
            for each in (path, _old(path)):
                if (part := self._appended(each)) is not None:
                    self._read_up_to[part.key] = each.stat().st_size

    def new_lines(self) -> list[LogLine]:
        """The lines since the last call, by time.

        Raises:
            OSError: a file cannot be read.
        """
        found, seen = list[LogLine](), dict[_Key, int]()
        for process, path in newest_files(self._folder):
            for each in (_old(path), path):
                part = self._appended(each)
                if part is None or part.key in seen:  # or rotated after it was read as the old one
                    continue
                end = part.data.rfind(b"\n") + 1
                if not end and len(part.data) == _AT_ONCE:
                    end = _AT_ONCE  # part of a line that is too long
                seen[part.key] = part.position + end
                lines = part.data[:end].split(b"\n")
                read = (self._filter.read(process, line) for line in lines)
                found += [line for line in read if line is not None]
        self._read_up_to = seen
        return sorted(found, key=lambda line: line.at_ms)

    def _appended(self, path: Path) -> _Part | None:
        """What was appended to a file; None if it is not there, or has no line yet."""
        try:
            with path.open("rb") as file:
                descriptor = file.fileno()
                key = _Key(os.fstat(descriptor).st_ino, os.pread(descriptor, _HEAD, 0))
                if len(key.head) < _HEAD:
                    return None
                start = self._read_up_to.get(key, 0)
                return _Part(key, start, os.pread(descriptor, _AT_ONCE, start))
        except FileNotFoundError:
            return None


def _old(path: Path) -> Path:
    return path.with_name(path.name + OLD)
