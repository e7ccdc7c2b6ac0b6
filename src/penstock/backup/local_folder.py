"""The local folder of backups: which of its archives equal their digests, and a place to stage."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from penstock.backup.folder import REHEARSED_SUFFIX, list_backups
from penstock.backup.model import digest_line, digest_name, read_digest
from penstock.errors import SyncRunning
from penstock.files import locked_at_once, make_folder, replace_file, sync_folder

STAGING = ".sync"
"""The folder, inside that of the backups, in which files are staged."""
_PART = 1 << 20


@dataclass(frozen=True)
class LocalCopy:
    """An archive in the local folder."""

    name: str
    size: int
    digest: str
    """SHA-256 of its bytes, as its digest file has it."""
    hash: str
    """The digest of its bytes that the remote knows as well."""
    is_whole: bool
    """Whether its bytes have the digest in its digest file."""
    is_rehearsed: bool = False
    """Whether it was restored once, and nothing was wrong."""


def read_copies(folder: Path, kind: str, stopped: Callable[[], bool]) -> Iterator[LocalCopy]:
    """Read every archive that has a digest file, and compare its bytes with that.

    Raises:
        StorageError: the folder cannot be read.
        OSError: a file cannot be read.
    """
    for backup in list_backups(folder):
        name = backup.name
        if stopped():
            return
        try:
            text = (folder / digest_name(name)).read_bytes()[:4096].decode(errors="replace")
            size, (digest, other) = hash_file(folder / name, ("sha256", kind), stopped)
        except FileNotFoundError:  # not complete yet, or deleted meanwhile
            continue
        expected = read_digest(text, name)
        yield LocalCopy(
            name, size, expected or "", other, digest == expected, is_rehearsed=backup.verified
        )


def hash_file(
    path: Path, kinds: tuple[str, ...], stopped: Callable[[], bool] = lambda: False
) -> tuple[int, list[str]]:
    """Return the size of a file, and one digest of each kind; of a part of it, if stopped.

    Raises:
        OSError: it cannot be read.
    """
    hashes = [hashlib.new(kind, usedforsecurity=False) for kind in kinds]
    size = 0
    with path.open("rb") as file:
        while (part := file.read(_PART)) and not stopped():
            size += len(part)
            for each in hashes:
                each.update(part)
    return size, [each.hexdigest() for each in hashes]


@contextmanager
def staging(folder: Path) -> Iterator[Path]:
    """Yield an empty folder beside the backups, for one process at a time.

    What a process left there that was killed is removed.

    Raises:
        SyncRunning: another process uses it.
        OSError: it cannot be created.
    """
    parent = folder / STAGING
    make_folder(parent)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked_at_once(parent))
        except BlockingIOError:
            raise SyncRunning(str(folder)) from None
        for left in parent.iterdir():
            shutil.rmtree(left, ignore_errors=True)
        # A name of its own: an rclone whose penstock was killed may still write to the old one.
        own = Path(mkdtemp(dir=parent))
        try:
            yield own
        finally:
            shutil.rmtree(own, ignore_errors=True)


def stage(source: Path, target: Path) -> None:
    """Have a file in the staging folder too; a later deletion of the source does not matter.

    Raises:
        OSError: it cannot be linked or copied.
    """
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target)


def take_over(staged: Path, folder: Path, digest: str) -> None:
    """Move a checked archive from the staging folder to the backups; its digest file comes last.

    Raises:
        OSError: it cannot be moved.
    """
    name = staged.name
    descriptor = os.open(staged, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    staged.replace(folder / name)
    sync_folder(folder)
    replace_file(folder / digest_name(name), digest_line(digest, name).encode())


def delete(folder: Path, name: str) -> None:
    """Delete a backup: the archive first, so that there is never a digest file that lies.

    Raises:
        OSError: it cannot be deleted.
    """
    (folder / name).unlink(missing_ok=True)
    (folder / digest_name(name)).unlink(missing_ok=True)
    (folder / (name + REHEARSED_SUFFIX)).unlink(missing_ok=True)
    sync_folder(folder)
