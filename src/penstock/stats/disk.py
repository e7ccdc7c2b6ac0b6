"""Measures folders: the number, size and latest change of the files of each category.

A category is a path of names, such as ``lake/EXCHANGE/CHANNEL``. What it holds is also part of each
category above it, as with directories.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

Category = tuple[str, ...]
"""The names of a category, from the outermost on; empty for everything."""
_BLOCK_BYTES = 512
"""The unit of ``st_blocks``, whatever the block size of the file system is."""
_MOST_DEPTH = 64


class Use(NamedTuple):
    """What files take on a disk."""

    size_bytes: int = 0
    files: int = 0
    updated_ms: int = 0
    """When one of them was changed last; 0 if there is none."""

    def plus(self, other: "Use") -> "Use":
        """Both together."""
        return Use(
            self.size_bytes + other.size_bytes,
            self.files + other.files,
            max(self.updated_ms, other.updated_ms),
        )


class FolderUse(NamedTuple):
    """The files of one folder, without those of its subfolders."""

    folder: Category
    """Its names below the folder that was measured."""
    use: Use
    largest: str
    """The name of its largest file; empty if it has none."""


def measure(root: Path) -> Iterator[FolderUse]:
    """Every folder below ``root`` that has files, and itself.

    Links are not followed. What disappears meanwhile or cannot be read is left out.
    """
    waiting: list[Category] = [()]
    while waiting:
        folder = waiting.pop()
        size = files = latest_ns = most = 0
        largest = ""
        try:
            with os.scandir(root.joinpath(*folder)) as entries:
                for entry in entries:
                    try:
                        if entry.is_dir(follow_symlinks=False):
                            if len(folder) < _MOST_DEPTH:
                                waiting.append((*folder, entry.name))
                            continue
                        found = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    taken = found.st_blocks * _BLOCK_BYTES
                    size += taken
                    files += 1
                    latest_ns = max(latest_ns, found.st_mtime_ns)
                    if taken > most:
                        most, largest = taken, entry.name
        except OSError:
            continue
        if files:
            yield FolderUse(folder, Use(size, files, latest_ns // 1_000_000), largest)


def total(found: Mapping[Category, Use]) -> dict[Category, Use]:
    """Each category with what it and the categories below it hold."""
    totals: dict[Category, Use] = {}
    for category, use in found.items():
        for length in range(len(category) + 1):
            above = category[:length]
            totals[above] = totals.get(above, Use()).plus(use)
    return totals
