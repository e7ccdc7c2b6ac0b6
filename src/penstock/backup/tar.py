"""The few parts of the tar format that a backup has: regular files with plain names.

Any ``tar`` can read what is written here. Read is only what could have been written here: links,
devices, extended headers, odd names and everything else make the whole archive invalid. So nothing
depends on how a library interprets such members.
"""

import re
import tarfile
from collections.abc import Iterator
from typing import NamedTuple, Protocol

BLOCK = 512
_END = 2 * BLOCK
_CHUNK = 1 << 20
_OCTAL_BYTES = 8**11
"""Sizes from here on do not fit into the octal field: they are in base 256, as GNU tar has them."""
_SIZE = slice(124, 136)
_SUM = slice(148, 156)
_TYPE = slice(156, 157)
_LINK = slice(157, 257)
_MAGIC = slice(257, 265)
_PREFIX = slice(345, 500)
_REST = slice(500, 512)
_LONGEST = 255
_PART = re.compile(r"[A-Za-z0-9_=%+@~-][A-Za-z0-9._=%+@~-]*")


class NotOurs(Exception):
    """Why an archive, or a name in it, is none of penstock's."""


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int) -> bytes:
        """At most so many bytes; none at the end."""
        ...


class Member(NamedTuple):
    """A file in an archive."""

    name: str
    size: int
    chunks: Iterator[bytes]
    """Its content. What is not read is skipped when the next member is read."""


def is_plain(path: str) -> bool:
    """Whether a path is relative, normalised, and of plain ASCII names that are not hidden."""
    return len(path) <= _LONGEST and all(_PART.fullmatch(part) for part in path.split("/"))


def header(name: str, size: int, mtime: int) -> bytes:
    """The header of a regular file.

    Raises:
        NotOurs: the name is not plain, or too long.
    """
    if not is_plain(name):
        raise NotOurs(f"{name!r} cannot be the name of a file in a backup")
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size if size < _OCTAL_BYTES else 0, max(0, mtime), 0o600
    try:
        block = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    except ValueError as error:
        raise NotOurs(f"the name {name!r} is too long for a backup") from error
    if size >= _OCTAL_BYTES:
        block[_SIZE] = b"\x80" + size.to_bytes(11, "big")
        block[_SUM] = b"%06o\0 " % _checksum(block)
    return bytes(block)


def padding(size: int) -> bytes:
    """What follows a file's content, up to the next block."""
    return bytes(-size % BLOCK)


def end() -> bytes:
    """What follows the last file."""
    return bytes(_END)


def members(stream: Readable) -> Iterator[Member]:
    """The files of an archive, in order.

    Raises:
        NotOurs: it is damaged, or something else is in it.
    """
    while any(block := _exactly(stream, BLOCK)):
        name, size = _parse(block)
        chunks = _content(stream, size)
        yield Member(name, size, chunks)
        for _ in chunks:
            pass
        if any(_exactly(stream, -size % BLOCK)):
            raise NotOurs(f"{name} is followed by something else than zeros")
    if any(_exactly(stream, BLOCK)) or stream.read(1):
        raise NotOurs("it does not end after its last file")


def _parse(block: bytes) -> tuple[str, int]:
    try:
        if int(block[_SUM].rstrip(b"\0 "), 8) != _checksum(block):
            raise NotOurs("a header is damaged")
        size = _number(block[_SIZE])
    except ValueError as error:
        raise NotOurs("a header is damaged") from error
    name = _text(block[:100])
    if prefix := _text(block[_PREFIX]):
        name = f"{prefix}/{name}"
    if not is_plain(name):
        raise NotOurs(f"it has a file with the name {name[:_LONGEST]!r}")
    if block[_TYPE] != b"0":
        raise NotOurs(f"{name} is not a regular file")
    if block[_MAGIC] != b"ustar\x0000" or any(block[_LINK]) or any(block[_REST]):
        raise NotOurs(f"{name} has a header of another kind")
    return name, size


def _number(field: bytes) -> int:
    if field[0] & 0x80:
        if field[0] != 0x80:
            raise ValueError("negative")
        return int.from_bytes(field[1:], "big")
    digits = field.rstrip(b"\0 ")
    if not digits.isdigit():
        raise ValueError("not a number")
    return int(digits, 8)


def _text(field: bytes) -> str:
    text, _, rest = field.partition(b"\0")
    if any(rest):
        raise NotOurs("a header is damaged")
    return text.decode("ascii", "backslashreplace")


def _checksum(block: bytes | bytearray) -> int:
    return sum(block) - sum(block[_SUM]) + 8 * ord(" ")


def _content(stream: Readable, size: int) -> Iterator[bytes]:
    while size:
        chunk = stream.read(min(size, _CHUNK))
        if not chunk:
            raise NotOurs("it ends in the middle of a file")
        size -= len(chunk)
        yield chunk


def _exactly(stream: Readable, size: int) -> bytes:
    found = b"".join(_content(stream, size))
    assert len(found) == size
    return found
