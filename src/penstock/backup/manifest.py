"""The list of what is in a backup: the last file of each archive, ``manifest.json``."""

from typing import Literal

import msgspec
from msgspec import Struct

from penstock.backup.tar import NotOurs, is_plain

NAME = "manifest.json"
VERSION = 1
MOST_BYTES = 256 << 20
MOST_FILES = 1_000_000

LOG, LAKE, STATE, LOG_ID = "log", "lake", "state.db", "bus/log.id"
"""Where the parts are in an archive: as in a data folder."""


class File(Struct, frozen=True, array_like=True):
    """One file."""

    path: str
    size: int
    sha256: str


class Part(Struct, frozen=True, kw_only=True):
    """Whether a part of the store is in the backup."""

    kind: str
    """Its kind of storage: rocksdb, sqlite, postgresql, delta, s3 and so on."""
    included: bool
    note: str = ""
    """Why not, and what to do about it."""


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a backup consists of."""

    kind: Literal["penstock-backup"] = "penstock-backup"
    version: int = VERSION
    penstock: str
    """The version that made it."""
    started_at: str
    """When it was begun and when the copy of the log was complete, in UTC."""
    taken_at: str
    log_id: str
    parts: dict[str, Part]
    """log, lake, state and live."""
    slots: list[str]
    files: list[File]

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files)


def is_ours(path: str) -> bool:
    """Whether a file of a backup may have this path."""
    folder, separator, _ = path.partition("/")
    return is_plain(path) and (
        path in (STATE, LOG_ID) or (bool(separator) and folder in (LOG, LAKE))
    )


def encode(manifest: Manifest) -> bytes:
    """The content of ``manifest.json``."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1)


def decode(data: bytes) -> Manifest:
    """Read ``manifest.json``.

    Raises:
        NotOurs: it is invalid, or of a newer version.
    """
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version > VERSION:
            raise NotOurs(f"a newer penstock made it (version {version}): upgrade this one")
        found = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotOurs(f"its manifest is invalid: {error}") from error
    paths = {file.path for file in found.files}
    if len(paths) < len(found.files) or not all(map(is_ours, paths)):
        raise NotOurs("its manifest has a file twice, or one that is none of penstock's")
    if any(parent in paths for path in paths for parent in _parents(path)):
        raise NotOurs("its manifest has a file that is a folder too")
    return found


class _Version(Struct):
    version: int


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
