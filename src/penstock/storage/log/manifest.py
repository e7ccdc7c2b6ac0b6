"""Reads from the MANIFEST which tables a slot consists of.

A reader that follows a slot silently returns to an older state of it if a table is missing or too
short. So the tables that the MANIFEST lists are compared with the existing files. The format is
that of RocksDB's VersionEdit.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from penstock.storage.log.damage import parts_of

_HEADER = 7
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_DELETED = 6
_ADDED = {7: 0, 100: 2, 103: 2}
"""Tags of edits that add a table, and how many numbers follow its keys."""
_ADDED_IN_PATH = 102
_HAS_FIELDS = 103
_END_OF_FIELDS = 1
_FIRST_WAL = (2, 10)
_NUMBERS = (3, 4, 9, 200, 203, 300)
"""Tags that are followed by one number."""
_BYTES = (1, 201)
"""Tags that are followed by bytes; so are all that may be ignored."""
_IGNORABLE = 1 << 13
_EMPTY = (202,)
_CURSOR = 5


class Manifest:
    """The contents of a MANIFEST."""

    def __init__(self) -> None:
        self.tables: dict[int, int] = {}
        """The size of every table, by number."""
        self.first_wal = 0
        """Write-ahead logs of lower numbers are no longer needed."""


def missing_tables(folder: Path) -> dict[str, str]:
    """Missing and incomplete tables of a slot, by name, with the problem of each.

    Also empty if the MANIFEST cannot be read: RocksDB reports that itself.
    """
    missing = _missing(folder)
    # A running owner deletes tables once the MANIFEST no longer lists them: check twice.
    return {name: problem for name, problem in _missing(folder).items() if name in missing}


def _missing(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, size in read_manifest(folder).tables.items():
        name = f"{number:06}.sst"
        try:
            there = (folder / name).stat().st_size
        except FileNotFoundError:
            found[name] = f"{name} is missing"
        else:
            if there != size:
                found[name] = f"{name} has {there:,} bytes instead of {size:,}"
    return found


def read_manifest(folder: Path) -> Manifest:
    """The contents of a slot's MANIFEST, as far as it can be parsed."""
    listing = Manifest()
    with suppress(OSError, ValueError, IndexError):
        name = (folder / "CURRENT").read_text().strip()
        for record in _records((folder / name).read_bytes()):
            _apply(record, listing)
    return listing


def _records(data: bytes) -> Iterator[bytes]:
    begun = b""
    for part in parts_of(data):
        content = data[part.start + _HEADER : part.end]
        if part.kind == _WHOLE:
            yield content
        elif part.kind == _LAST:
            yield begun + content
        elif part.kind in (_FIRST, _MIDDLE):
            begun = content if part.kind == _FIRST else begun + content


def _apply(edit: bytes, listing: Manifest) -> None:
    """Apply an edit to a listing.

    Raises:
        ValueError, IndexError: it cannot be parsed.
    """
    reader = _Fields(edit)
    while not reader.at_end:
        tag = reader.number()
        if tag in _ADDED or tag == _ADDED_IN_PATH:
            _add(tag, reader, listing.tables)
        elif tag == _DELETED:
            reader.number()
            listing.tables.pop(reader.number(), None)
        elif tag in _FIRST_WAL:
            listing.first_wal = max(listing.first_wal, reader.number())
        elif tag in _NUMBERS:
            reader.number()
        elif tag in _BYTES or tag & _IGNORABLE:
            reader.skip()
        elif tag == _CURSOR:
            reader.number()
            reader.skip()
        elif tag not in _EMPTY:
            raise ValueError(f"an edit with tag {tag}")


def _add(tag: int, reader: "_Fields", tables: dict[int, int]) -> None:
    reader.number()  # its level
    number = reader.number()
    if tag == _ADDED_IN_PATH:
        reader.number()
    tables[number] = reader.number()
    reader.skip()
    reader.skip()
    for _ in range(_ADDED.get(tag, 2)):
        reader.number()
    while tag == _HAS_FIELDS and reader.number() != _END_OF_FIELDS:
        reader.skip()


class _Fields:
    """Reads numbers and bytes, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def at_end(self) -> bool:
        return self._at >= len(self._data)

    def number(self) -> int:
        found = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return found
            shift += 7

    def skip(self) -> None:
        """Skip bytes that are preceded by their length."""
        length = self.number()
        self._at += length
