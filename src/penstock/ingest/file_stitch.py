"""Records the rows of published files, and what lies before and between them by requests.

The stitch is by position, which is the id of a trade or the open time of a candle: rows before the
next position that is left are skipped, and what is left before the next row is requested. So
nothing is recorded twice or left out, and what a file lacks is requested before it counts as
absent.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.errors import BadFile
from penstock.exchanges.bulk_files import FileSeries
from penstock.ingest.published_files import OpenFile, PublishedFiles
from penstock.market.events import Event

R = TypeVar("R", bound=Event)


@dataclass(frozen=True, kw_only=True)
class FileStitch(Generic[R]):
    """The files of one series, and how a run records them."""

    files: PublishedFiles
    series: FileSeries[R]
    step: int
    """Between the positions of two rows that follow each other."""
    left: Callable[[], tuple[int, int]]
    """What is not recorded yet: the first position, and the end, which is excluded."""
    fill: Callable[[int, int], Awaitable[bool]]
    """Requests and records what is from a position to another, which is excluded."""
    commit: Callable[[list[R]], Awaitable[bool]]
    """Records rows that follow each other and moves the cursor past them. This and ``fill`` return
    whether to continue."""
    compare: Callable[[R], Awaitable[str]]
    """Requests a record; returns how it differs from the row, or nothing."""

    async def record(self, since_ms: int, until_ms: int, from_ms: int) -> bool:
        """Record all that is left up to the last row of the files; return whether to continue.

        The files are those of whole days and months of a range of time that end after ``from_ms``.

        Raises:
            BadFile: a file is damaged or another one. What is before it is recorded.
            Others as ``PublishedFiles.opened`` and the functions of this stitch.
        """
        opened = self.files.opened(self.series, since_ms, until_ms, from_ms)
        async with aclosing(opened):
            async for file in opened:
                if not await self._record_file(file):
                    return False
        return True

    async def _record_file(self, file: OpenFile[R]) -> bool:
        try:
            goes_on = await self._record_rows(file)
        except BadFile:
            file.close()
            raise
        except BaseException:
            self.files.keep(file)
            raise
        if goes_on:
            file.close()
        else:
            self.files.keep(file)
        return goes_on

    async def _record_rows(self, file: OpenFile[R]) -> bool:
        position = self.series.position
        while rows := await file.read(self.left()[0]):
            end = self.left()[1]
            wanted = [row for row in rows if position(row) < end]
            if wanted and not file.is_compared:
                await self._compare(file, wanted[0])
            for run in self._runs(wanted):
                first = self.left()[0]
                if first < position(run[0]) and not await self.fill(first, position(run[0])):
                    return False
                if not await self.commit(run):
                    return False
            if len(wanted) < len(rows):
                break
        return True

    async def _compare(self, file: OpenFile[R], row: R) -> None:
        """Compare a row with the exchange's: a file of another market may have the right name."""
        if difference := await self.compare(row):
            raise BadFile(file.file.path, f"{difference}: it may be that of another market")
        file.is_compared = True

    def _runs(self, rows: Sequence[R]) -> Iterator[list[R]]:
        """The rows that follow each other without a hole."""
        positions = [*map(self.series.position, rows)]
        start = 0
        for index in range(1, len(rows) + 1):
            if index == len(rows) or positions[index] > positions[index - 1] + self.step:
                yield [*rows[start:index]]
                start = index
