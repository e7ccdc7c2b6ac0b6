"""Keeps the latest rows of a log as compressed JSON, and counts the dropped ones.

A simulator may run for days, so each log keeps a limited number of rows and reports how many it has
dropped. Rows are compressed in blocks and read as JSON without an object per row: a full log takes
a few megabytes, and so does a response with many rows, while and after it is built.
"""

import zlib
from collections import deque
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

import msgspec

_LONGEST_TEXT = 200
_BLOCK_ROWS = 256
_BETWEEN = b",\n"
"""Separates rows and occurs in none: JSON escapes line breaks in strings."""

Row = TypeVar("Row", bound=msgspec.Struct)


class Page(NamedTuple, Generic[Row]):
    """Rows after a sequence number, oldest first."""

    rows: list[Row]
    dropped: int
    """How many rows after that number have been dropped."""


class PackedPage(NamedTuple):
    """A page with its rows as a JSON array."""

    rows: msgspec.Raw
    dropped: int


class History(Generic[Row]):
    """Rows numbered from 1; the latest ``kept`` of them can be read."""

    def __init__(self, row: type[Row], kept: int) -> None:
        self._kept = kept
        self._blocks: deque[bytes] = deque()
        self._latest: list[bytes] = []
        """Rows that do not fill a block yet."""
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder(list[row]).decode  # type: ignore[valid-type]
        self.written = 0

    def append(self, row: Row) -> None:
        """Append a row; its number is one more than that of the previous row."""
        self._latest.append(self._encode(row))
        self.written += 1
        if len(self._latest) == _BLOCK_ROWS:
            self._blocks.append(zlib.compress(_BETWEEN.join(self._latest)))
            self._latest.clear()
            if (len(self._blocks) - 1) * _BLOCK_ROWS >= self._kept:
                self._blocks.popleft()

    def page(self, after: int, most: int | None = None) -> Page[Row]:
        """Up to ``most`` rows after the number ``after``."""
        packed = self.packed(after, most)
        return Page(self._decode(packed.rows), packed.dropped)

    def packed(self, after: int, most: int | None = None) -> PackedPage:
        """Up to ``most`` rows after the number ``after``, as a JSON array of objects."""
        first_kept = max(0, self.written - self._kept)
        begin = min(max(after, first_kept), self.written)
        end = self.written if most is None else min(begin + most, self.written)
        rows = b"[%b]" % _BETWEEN.join(self._parts(begin, end))
        return PackedPage(msgspec.Raw(rows), max(0, first_kept - after))

    def _parts(self, begin: int, end: int) -> Iterator[bytes]:
        """The rows after the number ``begin`` up to the number ``end``, in blocks."""
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
    """A client's text as a log keeps it: shortened, and valid UTF-8."""
    cut = text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"
    return cut.encode(errors="replace").decode()
