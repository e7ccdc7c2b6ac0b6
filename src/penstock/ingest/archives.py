"""Reads the rows of a published file in batches, and verifies the file before. Blocks.

Nothing is extracted, and the file is never in memory as a whole: a zip's only member is read in
blocks. A file is trusted for nothing: its checksum, its member's name and size, the order and the
times of its rows are compared with what they should be.
"""

import hashlib
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Generic, TypeVar

from penstock.errors import BadFile, UnexpectedAnswer
from penstock.exchanges.bulk_files import BulkFile, FileSeries
from penstock.ingest.history import iso
from penstock.market.events import Event

BATCH = 10_000
"""Rows of a batch. Each batch is recorded and synced as one."""
LONGEST_CHECKSUM = 1024
"""Bytes of a checksum file that are read."""
_BLOCK = 1 << 16
_LONGEST_LINE = 4096
_MOST_RATIO = 100
"""No CSV file of numbers is compressed to less than a hundredth."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_UNREADABLE = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError,
    ValueError,  # an offset before the beginning
)  # fmt: skip

R = TypeVar("R", bound=Event)


def verify(file: BulkFile, data: IO[bytes], checksum: bytes) -> None:
    """Compare a file with its checksum, which is ``<SHA-256>  <name>``.

    Raises:
        BadFile: they do not match.
    """
    words = checksum.decode(errors="replace").split()
    if len(words) != 2 or len(words[0]) != hashlib.sha256().digest_size * 2:
        begin = checksum[:80].decode(errors="replace")
        raise BadFile(file.path, f"its checksum file is not one: it begins {begin!r}")
    expected, name = words[0].lower(), words[1].lstrip("*")
    if name != file.name:
        raise BadFile(file.path, f"its checksum file is that of {name[:200]!r}")
    data.seek(0)
    actual = hashlib.file_digest(data, "sha256").hexdigest()  # type: ignore[arg-type]
    if actual != expected:
        raise BadFile(file.path, f"its SHA-256 is {actual}, and should be {expected}")


class Archive(Generic[R]):
    """The rows of one verified file."""

    def __init__(
        self, file: BulkFile, series: FileSeries[R], data: IO[bytes], received_at_ns: int
    ) -> None:
        self.file, self.series, self._data = file, series, data
        self._received_at_ns = received_at_ns
        self._batches = self._read()
        self._next = 0

    @property
    def next(self) -> int:
        """The position after the last row read."""
        return self._next

    def rewind(self) -> None:
        """Begin with the first row again."""
        self._batches, self._next = self._read(), 0

    def read(self) -> list[R]:
        """The next rows, at most a batch; none at the end of the file.

        Raises:
            BadFile: the file, or one of these rows, is not as it should be.
        """
        batch = next(self._batches, [])
        if batch:
            self._next = self.series.position(batch[-1]) + 1
        return batch

    def close(self) -> None:
        """Close the file."""
        self._data.close()

    def _read(self) -> Iterator[list[R]]:
        batch: list[R] = []
        last = -1
        for number, line in enumerate(self._lines(), 1):
            row = self._row(line, number)
            position = self.series.position(row)
            if position <= last:
                problem = f"{position} follows {last}: rows are not in order"
                raise BadFile(self.file.path, problem, line=number)
            last = position
            batch.append(row)
            if len(batch) == BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    def _row(self, line: str, number: int) -> R:
        file = self.file
        try:
            row = self.series.read(line.split(","), self._received_at_ns)
        except (ValueError, TypeError, UnexpectedAnswer) as error:
            problem = f"{line[:200]!r} is not a row as documented: {error}".rstrip(".")
            raise BadFile(file.path, problem, line=number) from error
        if not file.since_ms <= row.market_ms < file.until_ms:
            at, since, until = iso(row.market_ms), iso(file.since_ms), iso(file.until_ms)
            problem = f"it has a row of {at}, and should have those from {since} to {until}"
            raise BadFile(file.path, problem, line=number)
        return row

    def _lines(self) -> Iterator[str]:
        rest = b""
        for block in self._blocks():
            *lines, rest = (rest + block).split(b"\n")
            if max(map(len, (rest, *lines))) > _LONGEST_LINE:
                raise BadFile(self.file.path, f"it has a line of more than {_LONGEST_LINE} bytes")
            for line in lines:
                yield line.rstrip(b"\r").decode(errors="replace")
        if rest:
            yield rest.decode(errors="replace")

    def _blocks(self) -> Iterator[bytes]:
        try:
            self._data.seek(0)
            with zipfile.ZipFile(self._data) as archive:
                member = self._member(archive)
                with archive.open(member) as content:
                    while block := content.read(_BLOCK):
                        yield block
        except _UNREADABLE as error:
            raise BadFile(self.file.path, f"it is not a whole zip file: {error}") from error

    def _member(self, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
        path, members = self.file.path, archive.infolist()
        names = [each.filename for each in members]
        if names != [self.file.member]:
            shown = ", ".join(map(repr, names[:3]))[:200] or "nothing"
            raise BadFile(path, f"it contains {shown}, and should contain {self.file.member}")
        (member,) = members
        if member.file_size > max(1, member.compress_size) * _MOST_RATIO:
            sizes = f"{member.compress_size:,} bytes are {member.file_size:,} without compression"
            raise BadFile(path, f"{sizes}, more than {_MOST_RATIO} times as many")
        if member.compress_type not in _METHODS:
            raise BadFile(path, f"it is compressed by method {member.compress_type}, not deflate")
        return member
