"""Detects damaged files of a slot, also where RocksDB does not report the damage.

RocksDB checks every block of a table when it is read. Its write-ahead log and its MANIFEST may end
in the middle of a record, because a process may be killed while it writes one, and then that record
is dropped silently. A damaged header looks the same, although what follows it is sound. So the
headers of these two are read here first, to distinguish an incomplete record from a wrong header.
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
"""The suffix of a folder that is about to replace a slot."""

NO_MANIFEST = "switched to a new MANIFEST"
"""In the error of a reader that finds no MANIFEST."""
# Parts of RocksDB's messages about damaged or missing files.
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
"""Checksum, length and kind of a part of a record; the checksum covers kind and content."""
_PLAIN = range(1, 5)
"""Kinds of parts: whole, first, middle, last."""
_RECYCLED = range(5, 9)
"""The same in recycled log files, which are not used here."""


def is_damage(problem: str) -> bool:
    """Whether a message of RocksDB is about damaged or missing files."""
    return any(sign in problem for sign in _SIGNS)


def finish_repair(slot: Path) -> None:
    """Put a repaired slot in its place, if the repair was interrupted just before that.

    Raises:
        OSError: the folder cannot be renamed.
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
    """The parts of records from an offset on, as far as headers are plausible.

    At an implausible header, the last part has kind 0 and ends at the end of the file.
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
    """The problem with the headers of a write-ahead log or MANIFEST; "" if there is none.

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
    """The offsets of sound parts of records after an implausible header."""
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
        return False  # no record follows: the checksum need not be computed
    return is_intact(data, FilePart(at, end, kind))


def is_intact(data: Bytes, part: FilePart) -> bool:
    """Whether a part matches its checksum."""
    checksum: int = _HEADER.unpack_from(data, part.start)[0]
    return masked_crc32c(data[part.start + _HEADER.size - 1 : part.end]) == checksum


def kind_of_complete(data: Bytes, at: int) -> int:
    """The kind of a last record that is complete except for a wrong header; else 0."""
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
    """What was being read, for messages: ``records of a stream next to 3215``."""
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


def slots_in(folder: Path) -> Iterator[str]:
    """The slots of a folder that hold data, whether damaged or not."""
    for slot in folder.glob("*/"):
        name = slot.name.removesuffix(REPAIRED)
        holds = (slot / "CURRENT").exists() or any(slot.glob(TABLES)) or any(slot.glob(WALS))
        if keys.is_slot_name(name) and holds:
            yield name
