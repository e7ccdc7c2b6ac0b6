"""The names of backups, and what is known about each.

A backup is an archive ``storage-2025-01-15T14-30-00-000.tar.gz`` (or ``.tar.zst``) with its digest
in a file of the same name and ``.sha256`` added. The time in the name is UTC. Other names, such as
those of unfinished files, are never backups.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

ArchiveFormat = Literal["gz", "zst"]

DIGEST_SUFFIX = ".sha256"

_NAME = re.compile(
    r"storage-(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)(?:-(\d{3}))?\.tar\.(?:gz|zst)", re.ASCII
)
_DIGEST_LINE = re.compile(r"([0-9a-f]{64}) [ *]([^\n]+)\n?", re.ASCII)


@dataclass(frozen=True)
class BackupFile:
    """One archive in a folder or on a remote."""

    name: str
    at: datetime
    """When it was made, in UTC."""
    size: int
    verified: bool
    """Whether its bytes were compared with its digest, and are equal."""


def name_of(at: datetime, archive_format: ArchiveFormat = "gz") -> str:
    """Return the name of a backup made at a time."""
    utc = at.astimezone(UTC)
    return f"storage-{utc:%Y-%m-%dT%H-%M-%S}-{utc.microsecond // 1000:03}.tar.{archive_format}"


def time_of(name: str) -> datetime | None:
    """Return the time in a backup's name; None if it is not the name of a backup."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    day, hour, minute, second, millis = match.groups()
    try:
        return datetime.fromisoformat(f"{day}T{hour}:{minute}:{second}.{millis or '000'}+00:00")
    except ValueError:  # the 30th of February
        return None


def digest_name(name: str) -> str:
    """Return the name of the file with a backup's digest."""
    return name + DIGEST_SUFFIX


def digest_line(digest: str, name: str) -> str:
    """Return the content of a digest file, as ``sha256sum -c`` accepts it."""
    return f"{digest}  {name}\n"


def read_digest(text: str, name: str) -> str | None:
    """Return the digest in a digest file; None if it is invalid or that of another file."""
    match = _DIGEST_LINE.fullmatch(text)
    return match[1] if match is not None and match[2] == name else None
