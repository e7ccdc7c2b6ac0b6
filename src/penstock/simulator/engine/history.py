"""History: the newest rows of a log as compressed JSON, and how many older ones are gone.

A simulator may run for days, so each log keeps so many rows and says plainly what it has dropped.
Rows are compressed many at a time and read as JSON without an object for each: a full log takes a
few megabytes, and so does an answer with many of its rows, while and after it is made.
"""

import zlib
from collections import deque
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

import msgspec

_LONGEST_TEXT = 200
_BLOCK_ROWS = 256
_BETWEEN = b",\n"
"""Stands between rows, and in none of them: JSON writes a line's end in a text as an escape."""

Row = TypeVar("Row", bound=msgspec.Struct)


class Page(NamedTuple, Generic[Row]):
    """Rows behind a sequence number, oldest first."""

    rows: list[Row]
    dropped: int
    """Rows behind that number which are not kept any more."""


class PackedPage(NamedTuple):
    """The same, as JSON."""

    rows: msgspec.Raw
    dropped: int


class History(Generic[Row]):
    """Rows numbered from 1; the newest ``kept`` of them can be read."""

    def __init__(self, row: type[Row], kept: int) -> None:
        self._kept = kept
        self._blocks: deque[bytes] = deque()
        self._latest: list[bytes] = []
        """Rows that do not make a block yet."""
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(list[row]).decode  # type: ignore[valid-type]
        self.written = 0

    def append(self, row: Row) -> None:
        """Keep a row; its number is one more than that of the row before."""
        self._latest.append(self._encode(row))
        self.written += 1
        if len(self._latest) == _BLOCK_ROWS:
            self._blocks.append(zlib.compress(_BETWEEN.join(self._latest)))
            self._latest.clear()
            if (len(self._blocks) - 1) * _BLOCK_ROWS >= self._kept:
                self._blocks.popleft()

    def page(self, after: int, most: int | None = None) -> Page[Row]:
        """Up to ``most`` rows behind the number ``after``."""
        packed = self.packed(after, most)
        return Page(self._decode(packed.rows), packed.dropped)

    def packed(self, after: int, most: int | None = None) -> PackedPage:
        """Up to ``most`` rows behind the number ``after``, as a JSON array of objects."""
        first_kept = max(0, self.written - self._kept)
        begin = min(max(after, first_kept), self.written)
        end = self.written if most is None else min(begin + most, self.written)
        rows = b"[%b]" % _BETWEEN.join(self._parts(begin, end))
        return PackedPage(msgspec.Raw(rows), max(0, first_kept - after))

    def _parts(self, begin: int, end: int) -> Iterator[bytes]:
        """The rows behind the number ``begin`` up to the number ``end``, many at a time."""
        before = self.written - len(self._latest) - len(self._blocks) * _BLOCK_ROWS
        for block in self._blocks:
            first, last = max(begin - before, 0), min(end - before, _BLOCK_ROWS)
            if first < last:
                text = zlib.decompress(block)
                whole = last - first == _BLOCK_ROWS
                yield text if whole else _BETWEEN.join(text.split(_BETWEEN)[first:last])
            before += _BLOCK_ROWS
        if end > before:
            yield _BETWEEN.join(self._latest[max(begin - before, 0) : end - before])


def kept_text(text: str) -> str:
    """What a log keeps of a text that a client has sent: short, and always writable."""
    cut = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"
    return cut.encode(errors="replace").decode()
