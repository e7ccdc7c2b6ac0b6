"""Writes an archive: the files one after the other, then the manifest.

The content of every file passes through memory in blocks, once: it is hashed, compressed and
written in one go. The archive gets its name only when it is complete and on the disk; until then
its name begins with a dot, and the next backup removes it.
"""

import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from penstock.backup.compression import Compressor, compressor
from penstock.backup.manifest import NAME, File
from penstock.backup.model import ArchiveFormat, digest_line, digest_name
from penstock.backup.tar import NotOurs, end, header, padding
from penstock.errors import StorageError, StorageFull
from penstock.files import replace_file, sync_folder

PARTIAL = ".partial-"
"""The beginning of the names of incomplete files."""
Progress = Callable[[int], None]
"""Receives the bytes of files that were archived so far."""

_CHUNK = 1 << 20
_FORGET_EVERY = 64 << 20


class Source(NamedTuple):
    """A file to be archived."""

    path: str
    """In the archive."""
    file: Path


class Written(NamedTuple):
    """A complete archive."""

    path: Path
    size: int
    """Of the archive."""
    content: int
    """The bytes of all files in it."""
    digest: str


class ArchiveWriter:
    """Writes one archive. Its methods block."""

    def __init__(self, folder: Path, name: str, format_: ArchiveFormat) -> None:
        """Begin a file that is not a backup yet.

        Raises:
            StorageError: it cannot be created.
            MissingExtra: the library for this format is not installed.
        """
        self._target = folder / name
        self._partial = folder / f"{PARTIAL}{os.getpid()}-{name}"
        self._digest, self._size, self._forgotten, self._content = hashlib.sha256(), 0, 0, 0
        with self._named_errors():
            how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            self._descriptor = os.open(self._partial, how, 0o600)
        try:
            self._compressor: Compressor = compressor(format_, self._write)
        except BaseException:
            self.discard()
            raise

    def add(self, sources: Iterable[Source], progress: Progress = lambda _: None) -> Iterator[File]:
        """Add files; yield each with its digest. ``progress`` may raise an error to stop it.

        Raises:
            StorageError: a file cannot be read or changes, or the disk is full.
        """
        for source in sources:
            with self._named_errors():
                yield self._add(source, progress)

    def _add(self, source: Source, progress: Progress) -> File:
        digest = hashlib.sha256()
        with source.file.open("rb", buffering=0) as file:
            stat = os.fstat(file.fileno())
            size = left = stat.st_size
            self._begin(source.path, size, int(stat.st_mtime))
            is_first = True
            while chunk := file.read(min(_CHUNK, left)) if left else b"":
                if is_first:
                    self._compressor.begin(chunk)
                    is_first = False
                digest.update(chunk)
                self._compressor.write(chunk)
                left -= len(chunk)
                self._content += len(chunk)
                progress(self._content)
            # What was read once need not stay in memory in place of what collectors use.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if left:
            raise StorageError(str(source.file), "it became shorter while it was read", "Retry.")
        self._compressor.write(padding(size))
        return File(source.path, size, digest.hexdigest())

    def _begin(self, name: str, size: int, mtime: int) -> None:
        try:
            self._compressor.write(header(name, size, mtime))
        except NotOurs as error:
            raise StorageError(name, str(error), "Rename it, and retry.") from error

    def finish(self, manifest: bytes, mtime: int) -> Written:
        """Add the manifest, and give the archive its name once it is on the disk.

        Raises:
            StorageError: it cannot be written.
        """
        with self._named_errors():
            self._begin(NAME, len(manifest), mtime)
            self._compressor.begin(manifest[:_CHUNK])
            self._compressor.write(manifest)
            self._compressor.write(padding(len(manifest)) + end())
            self._compressor.close()
            os.fsync(self._descriptor)
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(self._descriptor)
            self._descriptor = -1
            digest = self._digest.hexdigest()
            # First the digest: an archive with its final name always has one.
            line = digest_line(digest, self._target.name)
            replace_file(self._target.with_name(digest_name(self._target.name)), line.encode())
            self._partial.rename(self._target)
            sync_folder(self._target.parent)
        return Written(self._target, self._size, self._content, digest)

    def discard(self) -> None:
        """Remove what was written, unless it is complete."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._partial.exists():
            with suppress(OSError):
                self._partial.unlink()
            with suppress(OSError):
                self._target.with_name(digest_name(self._target.name)).unlink(missing_ok=True)

    def _write(self, data: bytes) -> None:
        self._digest.update(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
        self._size += len(data)
        if self._size - self._forgotten > _FORGET_EVERY:
            # Written now rather than all at once at the end, which would delay other writers.
            os.fdatasync(self._descriptor)
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            self._forgotten = self._size

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = str(error.filename or self._target.parent)
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise StorageFull(
                    where, f"the backup cannot be written: {error.strerror}"
                ) from None
            raise StorageError(where, error.strerror or str(error)) from error
