"""Rows that were read in any order, to be read again by ranges of time.

As many as fit stay in memory. Beyond that they are sorted and written to temporary files, of which
only the batches of the wanted range are read.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import polars as pl
import pyarrow as pa

from penstock.dataset.merging import TIME
from penstock.dataset.windows import HOUR_NS, Piece, Window

_BATCH_ROWS = 65_536


class _Run(NamedTuple):
    path: Path
    ranges: list[tuple[int, int]]
    """The first and last time of every batch."""


class SortedRuns:
    """Collects frames of one schema. Close it after use: it may have temporary files."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._frames: list[pl.DataFrame] = []
        self._bytes = 0.0
        self._runs: list[_Run] = []
        self._folder: TemporaryDirectory[str] | None = None
        self._hours: dict[int, float] = {}

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows; they have a column of times."""
        size = frame.estimated_size()
        for hour, rows in frame.group_by(pl.col(TIME) // HOUR_NS).len().iter_rows():
            self._hours[hour] = self._hours.get(hour, 0.0) + size * rows / frame.height
        self._frames.append(frame)
        self._bytes += size
        if self._bytes > self._most_bytes:
            self._write()

    def pieces(self) -> list[Piece]:
        """How much every hour has."""
        return [
            Piece(hour * HOUR_NS, hour * HOUR_NS + HOUR_NS - 1, size)
            for hour, size in self._hours.items()
        ]

    def within(self, window: Window) -> Iterator[pl.DataFrame]:
        """The rows of a window, in any order."""
        wanted = pl.col(TIME).is_between(*window, closed="left")
        for run in self._runs:
            yield from (frame.filter(wanted) for frame in _read(run, window))
        yield from (frame.filter(wanted) for frame in self._frames)

    def close(self) -> None:
        """Delete the temporary files."""
        self._frames, self._runs = [], []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _write(self) -> None:
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="penstock-rows-")
        path = Path(self._folder.name) / f"{len(self._runs)}.arrow"
        table = pl.concat(self._frames).sort(TIME).to_arrow()
        ranges: list[tuple[int, int]] = []
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            for start in range(0, table.num_rows, _BATCH_ROWS):
                batch = table.slice(start, _BATCH_ROWS).combine_chunks()
                times = batch.column(TIME)
                ranges.append((times[0].as_py(), times[-1].as_py()))
                writer.write_table(batch)
        self._runs.append(_Run(path, ranges))
        self._frames, self._bytes = [], 0.0


def _read(run: _Run, window: Window) -> Iterator[pl.DataFrame]:
    overlapping = [
        index
        for index, (first, last) in enumerate(run.ranges)
        if first < window.until_ns and last >= window.since_ns
    ]
    with pa.memory_map(str(run.path)) as file:
        reader = pa.ipc.open_file(file)
        for index in overlapping:
            frame = pl.from_arrow(pa.Table.from_batches([reader.get_batch(index)]))
            assert isinstance(frame, pl.DataFrame)
            yield frame
