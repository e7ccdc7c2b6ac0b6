"""Reads what is still readable in damaged files of RocksDB.

RocksDB's own repair drops a whole table if one of its blocks is damaged. Here such a table is
opened alone, as the only one of a database, and the damaged blocks are skipped. A write-ahead log
is patched so that RocksDB can continue reading after the damage.
"""

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

from rocksdict import AccessType, Cache, Rdict, RdictIter

from penstock.storage.log.damage import (
    is_intact,
    kind_of_complete,
    masked_crc32c,
    parts_of,
    sound_after,
)
from penstock.storage.log.keys import AFTER_ALL
from penstock.storage.log.tuning import READERS_CACHE, read_options, readers_options

_BLOCK = 32 * 1024
_HEADER, _LENGTH_AT, _KIND_AT = 7, 4, 6
"""The length of a record's header, and the offsets of length and kind in it."""
_PLAIN = 1
_NEWEST = 1 << 50
"""Above every sequence number in use."""
_NUMBER = 7
_WIDTH = 32
"""Bytes of a key that are used in the search for the end of an unreadable range."""


class UnreadableKeys(NamedTuple):
    """Keys of a table, all between these two, that cannot be read. b"" is before all."""

    after: bytes
    before: bytes


def link(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it where the file system has no hard links."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)


class LoneTable:
    """One table, opened as the only one of a database."""

    def __init__(self, table: Path, folder: Path) -> None:
        """Use a folder that does not exist yet.

        Raises:
            Exception: the table's footer or index is damaged, so that nothing can be read.
        """
        folder.mkdir()
        link(table, folder / f"{_NUMBER:06}.sst")
        (folder / "MANIFEST-000001").write_bytes(_manifest_of_one(table.stat().st_size))
        (folder / "CURRENT").write_text("MANIFEST-000001\n")
        self.holes: list[UnreadableKeys] = []
        """Unreadable ranges, found while reading."""
        self.problem = ""
        """RocksDB's error message for the first one."""
        options = readers_options(Cache(READERS_CACHE))
        self._db = Rdict(str(folder), options, access_type=AccessType.read_only())

    def kv(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the readable entries, in the order of the keys."""
        found, last = self._db.iter(read_options()), b""
        found.seek_to_first()
        while True:
            while found.valid():
                last = cast("bytes", found.key())
                yield last, cast("bytes", found.value())
                found.next()
            problem = _problem(found)
            if not problem:
                return
            self.problem = self.problem or problem
            found = self._readable_after(last)
            after = cast("bytes", found.key()) if found.valid() else AFTER_ALL
            self.holes.append(UnreadableKeys(last, after))

    def _readable_after(self, key: bytes) -> RdictIter:
        """Return an iterator at the first readable key after a key that is followed by damage.

        A seek fails for every key up to the end of a damaged block, and no further. That end is
        searched for at doubling distances, so that sound blocks before a second damaged one are not
        skipped, and then by bisection.
        """
        here = int.from_bytes(key[:_WIDTH].ljust(_WIDTH, b"\0"), "big")
        fails, works = 0, 1
        while _problem(self._at(here + works)):
            fails, works = works, works * 2
        while works - fails > 1:
            middle = (fails + works) // 2
            if _problem(self._at(here + middle)):
                fails = middle
            else:
                works = middle
        return self._at(here + works)

    def _at(self, place: int) -> RdictIter:
        # A new one each time: after an error, an iterator may also fail at sound blocks.
        found = self._db.iter(read_options())
        found.seek(AFTER_ALL if place >> 8 * _WIDTH else place.to_bytes(_WIDTH, "big"))
        return found

    def close(self) -> None:
        self._db.close()


def _problem(found: RdictIter) -> str:
    try:
        found.status()
    except Exception as error:  # rocksdict raises no other
        return str(error)
    return ""


def _manifest_of_one(size: int) -> bytes:
    """A MANIFEST that lists a single table, with a key range that includes every key."""
    # A key is followed by its sequence number, newest first, and its kind: a plain value.
    smallest = struct.pack("<Q", _NEWEST << 8 | 1)
    largest = AFTER_ALL + struct.pack("<Q", 1)
    edit = (
        _varint(1) + _prefixed(b"leveldb.BytewiseComparator")
        + _varint(2) + _varint(0)  # no write-ahead log
        + _varint(3) + _varint(_NUMBER + 1)
        + _varint(4) + _varint(_NEWEST)
        + _varint(100) + _varint(0) + _varint(_NUMBER) + _varint(size)
        + _prefixed(smallest) + _prefixed(largest) + _varint(0) + _varint(_NEWEST)
    )  # fmt: skip
    checked = bytes([_PLAIN]) + edit
    return struct.pack("<IH", masked_crc32c(checked), len(edit)) + checked


def _varint(number: int) -> bytes:
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(written) + bytes([number])


def _prefixed(content: bytes) -> bytes:
    return _varint(len(content)) + content


def repair_wal(wal: Path) -> int:
    """Let RocksDB's repair read on after damage in a log; return how many bytes are damaged.

    The repair continues with the next block after most kinds of damage. After a header that looks
    like the end of the log it does not, so such headers are changed, or removed in the last block.
    """
    data = bytearray(wal.read_bytes())
    size, at, damaged, repaired = len(data), 0, 0, False
    while at < size:
        for part in parts_of(data, at):
            if not part.kind:
                break
            at = part.end
            if not is_intact(data, part):
                damaged += part.end - part.start
        else:
            break
        block_ends = min(size, (part.start // _BLOCK + 1) * _BLOCK)
        sound = list(sound_after(data[:block_ends], part.start))
        if block_ends < size:
            data[part.start + _KIND_AT] = _PLAIN
            damaged += block_ends - part.start
        elif sound:
            data[part.start :] = data[sound[0] :]
            damaged += sound[0] - part.start
            size = block_ends = len(data)
        elif kind := kind_of_complete(data, part.start):
            length = size - part.start - _HEADER
            struct.pack_into("<HB", data, part.start + _LENGTH_AT, length, kind)
            repaired = True
        at = block_ends
    if damaged or repaired:
        wal.write_bytes(data)
    return damaged
