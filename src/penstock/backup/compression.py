"""Compresses and decompresses archives as streams, in memory that does not depend on their size.

Most files of a store are compressed already. Gzip would take long over them for nothing, so the
files that cannot be compressed are stored as they are: a gzip file may consist of several parts,
and every tool reads them as one.
"""

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from penstock.backup.model import ArchiveFormat
from penstock.backup.tar import NotOurs, Readable
from penstock.errors import MissingExtra

if TYPE_CHECKING:
    import pyarrow as pa

Write = Callable[[bytes], object]

_CHUNK = 1 << 20
_GZIP = 31
"""Of zlib's ``wbits``: the format of gzip."""
_WORTH_IT = 0.85
"""Files that would take more than this share of their size are stored as they are."""
_SAMPLE = 1 << 16


class Compressor(Protocol):
    """Compresses what is written to it."""

    def begin(self, first: bytes) -> None:
        """Say that a file with these first bytes follows."""
        ...

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class _Gzip:
    def __init__(self, write: Write) -> None:
        self._write, self._level = write, 1
        self._stream = zlib.compressobj(self._level, zlib.DEFLATED, _GZIP)

    def begin(self, first: bytes) -> None:
        sample = first[:_SAMPLE]
        level = int(len(zlib.compress(sample, 1)) < _WORTH_IT * len(sample))
        if level != self._level:
            self.close()
            self._level = level
            self._stream = zlib.compressobj(level, zlib.DEFLATED, _GZIP)

    def write(self, data: bytes) -> None:
        self._write(self._stream.compress(data))

    def close(self) -> None:
        self._write(self._stream.flush())


class _Zstandard:
    def __init__(self, write: Write) -> None:
        self._stream = _pyarrow().CompressedOutputStream(_Sink(write), "zstd")

    def begin(self, first: bytes) -> None:
        """It is fast enough for every file."""

    def write(self, data: bytes) -> None:
        self._stream.write(data)

    def close(self) -> None:
        self._stream.close()


class _Sink:
    """What pyarrow takes for a file."""

    closed = False

    def __init__(self, write: Write) -> None:
        self._write = write

    def write(self, data: bytes) -> int:
        self._write(bytes(data))
        return len(data)

    def flush(self) -> None: ...

    def close(self) -> None: ...

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


def compressor(format_: ArchiveFormat, write: Write) -> Compressor:
    """Compress to a function that takes bytes.

    Raises:
        MissingExtra: the library for this format is not installed.
    """
    return _Gzip(write) if format_ == "gz" else _Zstandard(write)


class Decompressed:
    """The content of a compressed archive.

    ``read`` raises NotOurs if the archive is damaged, and if it holds far more than its size:
    a few bytes can be decompressed to any amount.
    """

    def __init__(self, file: Readable, format_: ArchiveFormat, most: int) -> None:
        self._stream: Readable = _Gunzip(file) if format_ == "gz" else _Unzstandard(file)
        self._left = most

    def read(self, size: int) -> bytes:
        """At most so many bytes; none at the end."""
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise NotOurs("it holds far more than its size allows")
        return data


class _Gunzip:
    def __init__(self, file: Readable) -> None:
        self._file, self._input = file, b""
        self._stream = zlib.decompressobj(_GZIP)

    def read(self, size: int) -> bytes:
        while size:
            if not self._input:
                self._input = self._file.read(_CHUNK)
                if not self._input:
                    # Complete only if the last part is.
                    if not self._stream.eof:
                        raise NotOurs("it ends in the middle")
                    return b""
            if self._stream.eof:
                self._stream = zlib.decompressobj(_GZIP)
            try:
                data = self._stream.decompress(self._input, size)
            except zlib.error as error:
                raise NotOurs(f"it cannot be decompressed: {error}") from error
            self._input = (
                self._stream.unused_data if self._stream.eof else self._stream.unconsumed_tail
            )
            if data:
                return data
        return b""


class _Unzstandard:
    def __init__(self, file: Readable) -> None:
        self._stream = _pyarrow().CompressedInputStream(file, "zstd")

    def read(self, size: int) -> bytes:
        try:
            return bytes(self._stream.read(size))
        except OSError as error:
            raise NotOurs(f"it cannot be decompressed: {error}") from error


def _pyarrow() -> "pa":
    try:
        import pyarrow  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise MissingExtra("pyarrow", "lake") from error
    return pyarrow
