"""Folders with backups for tests."""

import hashlib
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from penstock.backup.model import digest_line, digest_name, name_of, time_of

NOW = datetime(2025, 3, 10, 12, tzinfo=UTC)


def add_backup(folder: Path, days_ago: float, size: int = 3000) -> str:
    """Write a backup with chosen bytes and its digest file; return its name."""
    name = name_of(NOW - timedelta(days=days_ago))
    data = Random(name).randbytes(size)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    (folder / digest_name(name)).write_text(digest_line(hashlib.sha256(data).hexdigest(), name))
    return name


def whole_backups(folder: Path) -> set[str]:
    """The backups in a folder whose bytes have their digests."""
    return {path.name for path in _archives(folder) if _is_whole(path)}


def backups(folder: Path) -> set[str]:
    """The complete backups in a folder, whole or not."""
    return {path.name for path in _archives(folder)}


def flip_byte(path: Path) -> None:
    """Change a file as a failing disk does: its size and its time stay."""
    data, before = bytearray(path.read_bytes()), path.stat()
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _archives(folder: Path) -> list[Path]:
    return [
        path
        for path in folder.iterdir()
        if time_of(path.name) and path.with_name(digest_name(path.name)).exists()
    ]


def _is_whole(path: Path) -> bool:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return path.with_name(digest_name(path.name)).read_text() == digest_line(digest, path.name)
