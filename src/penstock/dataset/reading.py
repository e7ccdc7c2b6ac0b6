"""Reads rows of the log and of the lake as one, in order and in bounded memory.

First the log is read, then the latest version of the lake is opened: rows that move from one to the
other meanwhile are found in at least one of them, and those found in both are one row.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import polars as pl

from penstock.dataset.cold import Cold, ColdTable
from penstock.dataset.hot import hot_frames
from penstock.dataset.merging import TIME, in_order, merged, needed, time_of
from penstock.dataset.sorted_runs import SortedRuns
from penstock.dataset.times import Range
from penstock.dataset.windows import Piece, Window, windows
from penstock.market.channels import Channel
from penstock.storage.lake.columns import schema_of
from penstock.storage.log import EventLog
from penstock.storage.log.keys import Stream

_WINDOW_BYTES = 64 << 20
_HOT_BYTES = 256 << 20


@dataclass(frozen=True)
class Part:
    """Streams of one channel that are read together."""

    row: Channel
    streams: Sequence[Stream]
    columns: Sequence[str] | None = None
    """The stored columns that are wanted; None: all."""


@dataclass(frozen=True)
class Places:
    """Where rows are."""

    log: EventLog | None = None
    lake: Cold | None = None
    window_bytes: int = _WINDOW_BYTES
    """About how much is sorted in memory at once."""
    hot_bytes: int = _HOT_BYTES
    """About how much of the log is kept in memory; more is written to temporary files."""


def read(places: Places, part: Part, times: Range) -> Iterator[pl.DataFrame]:
    """The stored columns and times of all records of a part, each once, in order."""
    for frames in read_together(places, [part], times):
        yield frames[0]


def read_together(
    places: Places, parts: Sequence[Part], times: Range
) -> Iterator[list[pl.DataFrame]]:
    """The same for several parts: the frames of each window, one for every part."""
    readers = [_Reader(places, part, times) for part in parts]
    try:
        pieces = [piece for reader in readers for piece in reader.pieces()]
        for window in windows(pieces, places.window_bytes):
            inside = _within(window, times)
            frames = [reader.frame(inside) for reader in readers]
            if any(frame.height for frame in frames):
                yield frames
    finally:
        for reader in readers:
            reader.close()


def empty_frame(row: Channel) -> pl.DataFrame:
    """A frame of the stored columns without rows."""
    frame = pl.from_arrow(schema_of(row).empty_table())
    assert isinstance(frame, pl.DataFrame)
    return frame.with_columns(time_of(row))


class _Reader:
    def __init__(self, places: Places, part: Part, times: Range) -> None:
        self._part, self._times = part, times
        self._window_bytes = places.window_bytes
        self._runs = SortedRuns(places.hot_bytes)
        self._table: ColdTable | None = None
        every = schema_of(part.row).names
        self._wanted = [*(every if part.columns is None else part.columns), TIME]
        self._names = every if part.columns is None else needed(part.row, part.columns)
        try:
            if places.log is not None and part.streams:
                with closing(hot_frames(places.log, part.streams, times)) as frames:
                    for frame in frames:
                        self._runs.add(frame.select(*self._names, TIME))
            if places.lake is not None and part.streams:
                self._table = places.lake.table(part.row)
        except BaseException:
            self.close()
            raise

    def pieces(self) -> list[Piece]:
        found = self._runs.pieces()
        if self._table is not None:
            share = len(self._names) / len(schema_of(self._part.row).names)
            found += self._table.pieces(self._part.streams, self._times, share, self._window_bytes)
        return found

    def frame(self, window: Window) -> pl.DataFrame:
        row = self._part.row
        names = [*self._names, TIME]
        frames = [empty_frame(row).select(names), *self._runs.within(window)]
        if self._table is not None:
            frames.append(self._table.frame(self._part.streams, window, names))
        return in_order(row, merged(row, pl.concat(frames)), self._wanted)

    def close(self) -> None:
        self._runs.close()


def _within(window: Window, times: Range) -> Window:
    """The part of a window that lies in the range."""
    since_ns, until_ns = window
    if times.since_ns is not None:
        since_ns = max(since_ns, times.since_ns)
    if times.until_ns is not None:
        until_ns = min(until_ns, times.until_ns)
    return Window(since_ns, until_ns)
