"""Reads the log files of processes backwards, in blocks, from their ends or from a time."""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from penstock.telemetry.log_file import FOLDER, SUFFIX
from penstock.telemetry.rotated_file import OLD

HEAD = re.compile(rb'\{"ts":"([0-9-]{10}T[0-9:]{8}(?:\.[0-9]{1,9})?)Z","level":"([a-z]+)"')
"""The start of a line. Times of this form are in the order of their texts."""
MOST_PROCESSES = 300
"""Processes whose files are read: those that wrote last."""
_BLOCK = 32_768
_LONGEST = 1_000_000
"""A line that is longer is left out."""


class _File(NamedTuple):
    descriptor: int
    size: int


class Tail:
    """The log files of one process, opened."""

    def __init__(self, process: str, files: list[_File]) -> None:
        """``files`` with the newest first."""
        self.process, self._files = process, files
        self.scanned = 0
        """Bytes that were read so far."""

    def lines(self, until: bytes | None) -> Iterator[bytes]:
        """All complete lines, the newest first.

        If the lines of each file are in the order of their times, most of those that are newer than
        ``until`` are left out.
        """
        for file in self._files:
            yield from self._backwards(file, file.size if until is None else self._end(file, until))

    def _backwards(self, file: _File, end: int) -> Iterator[bytes]:
        """The lines before a position. What comes after the last line break is incomplete."""
        position, rest, is_part = end, b"", True
        while position > 0:
            start = max(0, position - _BLOCK)
            block = self._read(file, start, position - start)
            if len(block) < position - start:
                return  # the file was truncated
            position = start
            first, *lines = (block + rest).split(b"\n")
            if lines and is_part:
                lines.pop()
                is_part = False
            yield from reversed(lines)
            rest = first
            if len(rest) > _LONGEST:
                rest, is_part = b"", True
        if not is_part:
            yield rest

    def _end(self, file: _File, until: bytes) -> int:
        """A position after all lines up to a time, and not far after them."""
        end, low, high = file.size, 0, -(-file.size // _BLOCK)
        while low < high:
            middle = (low + high) // 2
            block = self._read(file, middle * _BLOCK, _BLOCK)
            start = block.find(b"\n") + 1
            head = HEAD.match(block, start) if start else None
            if head is not None and head[1] > until:
                high, end = middle, middle * _BLOCK + start
            else:
                low = middle + 1
        return end

    def _read(self, file: _File, start: int, size: int) -> bytes:
        self.scanned += size
        return os.pread(file.descriptor, size, start)


def open_tails(folder: Path, stack: ExitStack, process: str | None = None) -> list[Tail]:
    """Open the log files of all processes of a data folder, or of one; ``stack`` closes them.

    Raises:
        OSError: a file cannot be opened.
    """
    tails = []
    for name, path in newest_files(folder):
        if process in (None, name):
            files: list[_File] = []
            inodes = set()
            # In this order: if the file is rotated meanwhile, the same one is found twice.
            for each in (path, path.with_name(path.name + OLD)):
                try:
                    descriptor = os.open(each, os.O_RDONLY | os.O_CLOEXEC)
                except FileNotFoundError:
                    continue
                stack.callback(os.close, descriptor)
                found = os.fstat(descriptor)
                if found.st_ino not in inodes:
                    inodes.add(found.st_ino)
                    files.append(_File(descriptor, found.st_size))
            tails.append(Tail(name, files))
    return tails


def newest_files(folder: Path) -> list[tuple[str, Path]]:
    """The names of processes and their files in a data folder, those that were written last first.

    Raises:
        OSError: the folder cannot be read.
    """
    written: dict[Path, float] = {}
    logs = folder / FOLDER
    for entry in os.scandir(logs) if logs.is_dir() else ():
        path = Path(entry.path.removesuffix(OLD))
        if path.suffix == SUFFIX and entry.is_file(follow_symlinks=False):
            written[path] = max(written.get(path, 0.0), entry.stat().st_mtime)
    newest = sorted(written, key=written.__getitem__, reverse=True)[:MOST_PROCESSES]
    named = [(unquote(path.stem), path) for path in newest]
    return [(name, path) for name, path in named if name.isprintable()]
