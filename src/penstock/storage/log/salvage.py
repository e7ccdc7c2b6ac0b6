"""Salvage: what can still be read of files of RocksDB that are damaged.

RocksDB's own repair drops a table whole if one of its blocks is damaged. Here such a table is
opened alone, as the only one of a database, and read around the damage. A write-ahead log is
repaired as far as RocksDB can go on reading after what is damaged.
"""

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, cast

from rocksdict import AccessType, Rdict, RdictIter

from penstock.storage.log.damage import (
    is_intact,
    kind_of_complete,
    masked_crc32c,
    parts_of,
    sound_after,
)
from penstock.storage.log.keys import AFTER_ALL
from penstock.storage.log.tuning import read_options, readers_options

_BLOCK = 32 * 1024
_HEADER, _LENGTH_AT, _KIND_AT = 7, 4, 6
"""How long the header of a record is, and where in it length and kind are."""
_PLAIN = 1
_NEWEST = 1 << 50
"""Above every sequence number there is."""
_NUMBER = 7
_WIDTH = 32
"""Bytes of a key that are looked at in the search for the end of a hole."""


class UnreadableKeys(NamedTuple):
    """Keys of a table, all between these two, that cannot be read. b"" is before all."""

    after: bytes
    before: bytes


def link(source: Path, target: Path) -> None:
    """Let a file be found in two places; copied where the file system cannot do that."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)


class LoneTable:
    """One table, opened as if there were no other."""

    def __init__(self, table: Path, folder: Path) -> None:
        """Use a folder that does not exist yet.

        Raises:
            Exception: what tells where to look in the table is damaged, so that nothing is found.
        """
        folder.mkdir()
        link(table, folder / f"{_NUMBER:06}.sst")
        (folder / "MANIFEST-000001").write_bytes(_manifest_of_one(table.stat().st_size))
        (folder / "CURRENT").write_text("MANIFEST-000001\n")
        self.holes: list[UnreadableKeys] = []
        """Found while reading."""
        self.problem = ""
        """What RocksDB says of the first."""
        self._db = Rdict(str(folder), readers_options(), access_type=AccessType.read_only())

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """What can be read, in the order of the keys."""
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
        """Where reading can go on above a key that is followed by damage.

        A seek fails for every key up to the end of a damaged block, and no further. That end is
        looked for at distances that double, so that what is sound up to a second damaged block is
        not passed over, and then by halving.
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
        # A new one each time: one that met damage may meet it again where there is none.
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
    """A MANIFEST that names a single table, said to hold any key there may be."""
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


def mend_wal(wal: Path) -> int:
    """Let RocksDB's repair read on after what is damaged; returns how many bytes are.

    It goes on with the next block after most kinds of damage. After a header that looks like the
    end of the log it does not, so those are changed, and in the last block they are cut out.
    """
    data = bytearray(wal.read_bytes())
    size, at, damaged, mended = len(data), 0, 0, False
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
            mended = True
        at = block_ends
    if damaged or mended:
        wal.write_bytes(data)
    return damaged
