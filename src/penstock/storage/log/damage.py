"""Damage: what RocksDB reports when files of a slot are not as they were written, and what it
does not report.

RocksDB checks every block of a table when it is read. Its write-ahead log and its MANIFEST may end
in the middle of a record, because a process may die while it writes one, and then that record is
dropped in silence. A damaged header looks the same, although what follows it is sound. So the
headers of these two are read here first: they tell a record that was cut short from a header that
is wrong.
"""

import mmap
import struct
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from penstock.storage.log import keys

TABLES = "*.sst"
WALS = "*.log"
MANIFESTS = "MANIFEST-*"
REPAIRED = ".repaired"
"""Ends the name of a folder that is about to take the place of a slot."""

NO_MANIFEST = "switched to a new MANIFEST"
"""Said by a reader that finds none."""
# What files that are damaged or missing make RocksDB say.
_SIGNS = (
    "Corruption:",
    "No such file or directory",
    "Invalid argument:",
    "Not implemented:",
    "Input/output error",
    NO_MANIFEST,
)
_BLOCK = 32 * 1024
_HEADER = struct.Struct("<IHB")
"""Checksum, length and kind of a part of a record; the checksum is of kind and content."""
_PLAIN = range(1, 5)
"""Kinds of parts: whole, first, middle, last."""
_RECYCLED = range(5, 9)
"""The same in files that are written over, which ours never are."""


def is_damage(problem: str) -> bool:
    """Whether what RocksDB says is about damaged or missing files."""
    return any(sign in problem for sign in _SIGNS)


def finish_repair(slot: Path) -> None:
    """Put what was repaired in its place, if a repair was interrupted just before.

    Raises:
        OSError: that cannot be done.
    """
    repaired = slot.with_name(slot.name + REPAIRED)
    if repaired.exists() and not slot.exists():
        repaired.rename(slot)


Bytes = bytes | bytearray | mmap.mmap


class FilePart(NamedTuple):
    """A record of a write-ahead log or MANIFEST, or a part of one."""

    start: int
    end: int
    kind: int


def parts_of(data: Bytes, at: int = 0) -> Iterator[FilePart]:
    """The parts of records from a place on, as far as headers can be believed.

    Where one cannot, the last part has kind 0, and ends where the file does.
    """
    size, unpack = len(data), _HEADER.unpack_from
    while at < size:
        left = _BLOCK - at % _BLOCK
        if left < _HEADER.size:  # too little for a header: nothing is written there
            at += left
            continue
        if at + _HEADER.size > size:
            yield FilePart(at, size, 0)
            return
        _, length, kind = unpack(data, at)
        end = at + _HEADER.size + length
        if kind in _RECYCLED or not (kind or length) or end > min(size, at + left):
            yield FilePart(at, size, 0)
            return
        yield FilePart(at, end, kind)
        at = end


def record_problem(file: Path, *, is_last: bool) -> str:
    """What is wrong with the headers of a write-ahead log or MANIFEST; "" if nothing is.

    Only the last of several files may end in the middle of a record.
    """
    if not file.stat().st_size:
        return ""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        (last,) = deque(parts_of(data), maxlen=1)
        if last.kind:
            return ""
        if not is_last:
            return (
                f"{file.name} ends in the middle of a record, at {last.start}, and another follows"
            )
        sound = kind_of_complete(data, last.start) or next(sound_after(data, last.start), 0)
        if sound:
            return f"{file.name} has a damaged record at {last.start}, and not because it was cut"
    return ""


def sound_after(data: Bytes, at: int) -> Iterator[int]:
    """Where sound parts of records begin after a place whose header cannot be believed."""
    size, place = len(data), at + 1
    while place + _HEADER.size <= size:
        left = _BLOCK - place % _BLOCK
        if left < _HEADER.size:
            place += left
            continue
        if _is_sound(data, place, min(size, place + left)):
            yield place
        place += 1


def _is_sound(data: Bytes, at: int, limit: int) -> bool:
    _, length, kind = _HEADER.unpack_from(data, at)
    end = at + _HEADER.size + length
    if kind not in _PLAIN or not length or end > limit:
        return False
    if end + _HEADER.size <= limit and data[end + _HEADER.size - 1] not in _PLAIN:
        return False  # what follows is no record: not worth a checksum
    return is_intact(data, FilePart(at, end, kind))


def is_intact(data: Bytes, part: FilePart) -> bool:
    """Whether a part is what its checksum says."""
    checksum: int = _HEADER.unpack_from(data, part.start)[0]
    return masked_crc32c(data[part.start + _HEADER.size - 1 : part.end]) == checksum


def kind_of_complete(data: Bytes, at: int) -> int:
    """The kind of a last record all of which is there, and only its header is wrong; else 0."""
    if at + _HEADER.size > len(data) or len(data) - at > _BLOCK:
        return 0
    checksum, _, _ = _HEADER.unpack_from(data, at)
    content = bytes(data[at + _HEADER.size :])
    kinds = (kind for kind in _PLAIN if masked_crc32c(bytes([kind]) + content) == checksum)
    return next(kinds, 0)


def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


_CRC = _crc_table()


def masked_crc32c(data: bytes | bytearray) -> int:
    """The checksum of a record, as RocksDB writes it."""
    crc, table = 0xFFFFFFFF, _CRC
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def place_text(begin: bytes, last: bytes | None, stream: str) -> str:
    """What was being read, for people: ``records of a stream next to 3215``."""
    kinds = {b"r": "records", b"n": "the index of numbers", b"t": "the index of times"}
    kind = kinds.get(begin[:1])
    if kind is None:
        return "the list of streams"
    text = f"{kind} of {stream or 'stream ' + str(int.from_bytes(begin[1:5], 'big'))}"
    if kind != "records" or len(begin) < 5:
        return text
    if last is not None:
        return f"{text} next to {keys.key_text(last[5:])}"
    return f"{text} from {keys.key_text(begin[5:])}" if len(begin) > 5 else text
