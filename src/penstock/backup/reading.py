"""Reads archives, and checks that they are what was written.

An archive may have been damaged, cut off, or made by someone else to do harm. It is read as a
stream, with limits on sizes and counts; one wrong file makes all of it invalid.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

from penstock.backup import manifest
from penstock.backup.compression import Decompressed
from penstock.backup.manifest import File, Manifest
from penstock.backup.model import ArchiveFormat, digest_name, read_digest
from penstock.backup.tar import Member, NotOurs, members
from penstock.errors import BadBackup, StorageError

_MOST_RATIO = 200
_SMALL = 64 << 20
"""What any archive may hold, however small it is."""
_CHUNK = 1 << 20

Progress = Callable[[int], None]
"""Receives the bytes of the archive that were read so far."""


def check_archive(path: Path, progress: Progress | None = None) -> Manifest:
    """Read a whole archive, and compare it with its digest and its manifest. Nothing is written.

    Raises:
        BadBackup: it is damaged or incomplete, or penstock did not make it.
        StorageError: it cannot be read.
    """
    with _opened(path, progress) as (file, format_):
        found = _read_all(Decompressed(file, format_, _most(path)))
        file.check_digest()
    return found


def contents(
    path: Path, expected: Manifest, progress: Progress | None = None
) -> Iterator[tuple[File, Iterator[bytes]]]:
    """The files of an archive that was checked before, as its manifest has them.

    Whoever takes a file's content takes all of it, or nothing of the archive may be used. It is
    compared with the manifest again: the archive may have changed.

    Raises:
        BadBackup, StorageError: as above.
    """
    left = {file.path: file for file in expected.files}
    with _opened(path, progress) as (file, format_):
        for member in members(Decompressed(file, format_, _most(path))):
            if member.name == manifest.NAME:
                continue
            listed = left.pop(member.name, None)
            if listed is None or listed.size != member.size:
                raise NotOurs(f"{member.name} is not as its manifest says")
            yield listed, _compared(member, listed)
        if left:
            raise NotOurs(f"{min(left)} is missing")


def _compared(member: Member, listed: File) -> Iterator[bytes]:
    digest = hashlib.sha256()
    for chunk in member.chunks:
        digest.update(chunk)
        yield chunk
    if digest.hexdigest() != listed.sha256:
        raise NotOurs(f"{listed.path} is not as its manifest says")


def _read_all(stream: Decompressed) -> Manifest:
    found: dict[str, File] = {}
    listed: Manifest | None = None
    for member in members(stream):
        if listed is not None:
            raise NotOurs("a file follows its manifest")
        if member.name == manifest.NAME:
            listed = _manifest(member)
            continue
        if not manifest.is_ours(member.name):
            raise NotOurs(f"{member.name} is none of penstock's files")
        if member.name in found:
            raise NotOurs(f"it has {member.name} twice")
        if len(found) == manifest.MOST_FILES:
            raise NotOurs("it has too many files")
        digest = hashlib.sha256()
        for chunk in member.chunks:
            digest.update(chunk)
        found[member.name] = File(member.name, member.size, digest.hexdigest())
    if listed is None:
        raise NotOurs("it has no manifest")
    for file in listed.files:
        if found.pop(file.path, None) != file:
            raise NotOurs(f"{file.path} is not as its manifest says")
    if found:
        raise NotOurs(f"{min(found)} is not in its manifest")
    return listed


def _manifest(member: Member) -> Manifest:
    if member.size > manifest.MOST_BYTES:
        raise NotOurs("its manifest is too large")
    return manifest.decode(b"".join(member.chunks))


def _most(path: Path) -> int:
    return _SMALL + _MOST_RATIO * path.stat().st_size


class _Hashed:
    """The bytes of an archive, compared with its digest at the end."""

    def __init__(self, file: FileIO, path: Path, progress: Progress | None) -> None:
        self._file, self._path, self._progress = file, path, progress
        self._digest, self._read = hashlib.sha256(), 0

    closed = False

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._digest.update(data)
        self._read += len(data)
        if self._progress is not None:
            self._progress(self._read)
        return data

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Called by pyarrow; the file is closed elsewhere."""

    def check_digest(self) -> None:
        """Read the rest, and compare."""
        while self.read(_CHUNK):
            pass
        sidecar = self._path.with_name(digest_name(self._path.name))
        try:
            text = sidecar.read_text("ascii", "replace")
        except FileNotFoundError:
            raise NotOurs(f"its digest, {sidecar.name}, is missing") from None
        if read_digest(text, self._path.name) != self._digest.hexdigest():
            raise NotOurs(f"its digest is not that in {sidecar.name}")


@contextmanager
def _opened(path: Path, progress: Progress | None) -> Iterator[tuple[_Hashed, ArchiveFormat]]:
    format_: ArchiveFormat = "zst" if path.name.endswith(".zst") else "gz"
    try:
        with path.open("rb", buffering=0) as file:
            yield _Hashed(file, path, progress), format_
    except NotOurs as error:
        raise BadBackup(str(path), str(error)) from error
    except OSError as error:
        raise StorageError(str(error.filename or path), error.strerror or str(error)) from error
