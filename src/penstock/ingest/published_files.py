"""The published files of a range of time: which there are, and their rows, verified.

The file of a month is taken where the whole month is within the range, those of single days
elsewhere. A file that is missing is left out.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import IO, Any, Generic, NamedTuple, TypeVar

from penstock.clock import Clock
from penstock.errors import BadFile
from penstock.exchanges.bulk_files import BulkFile, FileSeries, months, whole_days
from penstock.ingest.archives import LONGEST_CHECKSUM, Archive, verify
from penstock.ingest.file_source import FileSource
from penstock.market.events import Event

_KEPT = 2
"""Files of runs that were stopped within them, so that the next run need not download them."""
_AT_ONCE = 8

R = TypeVar("R", bound=Event)
T = TypeVar("T")


class SizedFile(NamedTuple):
    """A file that exists."""

    file: BulkFile
    size: int
    """In bytes."""


class OpenFile(Generic[R]):
    """A verified file, whose rows are read in another thread."""

    def __init__(self, archive: Archive[R]) -> None:
        self.file, self._archive = archive.file, archive
        self.is_compared = False
        """Whether one of its records was compared with that of the exchange."""

    async def read(self, first: int) -> list[R]:
        """The next rows at or after a position, at most a batch; none at the end of the file.

        Continues where it stopped, unless that is after ``first``.

        Raises:
            BadFile: the file, or one of these rows, is not as it should be.
        """
        archive, position = self._archive, self._archive.series.position
        if archive.next > first:
            archive.rewind()
        while batch := await _in_thread(archive.read):
            if rows := [row for row in batch if position(row) >= first]:
                return rows
        return []

    def close(self) -> None:
        """Close it."""
        self._archive.close()


class PublishedFiles:
    """The files of one source."""

    def __init__(self, source: FileSource, clock: Clock) -> None:
        self._source, self._clock = source, clock
        self._kept: dict[str, OpenFile[Any]] = {}

    async def listed(
        self, series: FileSeries[Any], since_ms: int, until_ms: int
    ) -> list[SizedFile]:
        """The files of a range of time, oldest first, with their sizes. Downloads nothing.

        Raises:
            ExchangeError, ExchangeUnreachable, StorageError: the source cannot be asked now.
        """
        turns = asyncio.Semaphore(_AT_ONCE)

        async def sized(file: BulkFile) -> list[SizedFile]:
            async with turns:
                size = await self._source.size(file.path)
            return [] if size is None else [SizedFile(file, size)]

        async def either(month: BulkFile | None, days: list[BulkFile]) -> list[SizedFile]:
            if month is not None and (found := await sized(month)):
                return found
            return [each for found in await asyncio.gather(*map(sized, days)) for each in found]

        groups = (either(*each) for each in _choices(series, since_ms, until_ms))
        return [each for found in await asyncio.gather(*groups) for each in found]

    async def opened(
        self, series: FileSeries[R], since_ms: int, until_ms: int, from_ms: int
    ) -> AsyncGenerator[OpenFile[R], None]:
        """The files of a range of time, without those that end at ``from_ms`` or before.

        They are in order, and each is verified. It is closed, or kept, by the caller.

        Raises:
            BadFile: a file is damaged, or has no checksum.
            ExchangeError, ExchangeUnreachable, StorageError: the source cannot be asked now.
        """
        for month, days in _choices(series, since_ms, until_ms):
            if month is not None and month.until_ms > from_ms:
                found = await self._open(series, month)
                if found is not None:
                    yield found
                    continue
            for day in days:
                if day.until_ms > from_ms and (found := await self._open(series, day)) is not None:
                    yield found

    def keep(self, opened: OpenFile[Any]) -> None:
        """Keep a file that was not read to its end, for the next run."""
        if (other := self._kept.pop(opened.file.path, None)) is not None:
            other.close()
        self._kept[opened.file.path] = opened
        while len(self._kept) > _KEPT:
            self._kept.pop(next(iter(self._kept))).close()

    async def aclose(self) -> None:
        """Close all files and connections."""
        for opened in self._kept.values():
            opened.close()
        self._kept.clear()
        await self._source.aclose()

    async def _open(self, series: FileSeries[R], file: BulkFile) -> OpenFile[R] | None:
        kept = self._kept.pop(file.path, None)
        if kept is not None:
            return kept
        checksum = await self._source.head(file.checksum_path, LONGEST_CHECKSUM)
        if checksum is None:
            if await self._source.size(file.path) is None:
                return None
            raise BadFile(file.path, "it has no checksum file beside it")
        data = await self._source.open(file.path)
        if data is None:
            return None
        return OpenFile(await self._verified(series, file, data, checksum))

    async def _verified(
        self, series: FileSeries[R], file: BulkFile, data: IO[bytes], checksum: bytes
    ) -> Archive[R]:
        try:
            await _in_thread(lambda: verify(file, data, checksum))
        except BaseException:
            data.close()
            raise
        return Archive(file, series, data, self._clock.now_ns())


def _choices(
    series: FileSeries[R], since_ms: int, until_ms: int
) -> Iterator[tuple[BulkFile | None, list[BulkFile]]]:
    """For each month of a range: its file, if it is wholly within, and those of its days."""
    for month in months(since_ms, until_ms):
        first_ms, end_ms = max(since_ms, month.since_ms), min(until_ms, month.until_ms)
        is_whole = (first_ms, end_ms) == (month.since_ms, month.until_ms)
        days = [series.file(day) for day in whole_days(first_ms, end_ms)]
        yield series.file(month) if is_whole else None, days


async def _in_thread(call: Callable[[], T]) -> T:
    """Run a blocking call; if this is cancelled, wait for it, since it uses an open file."""
    running = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
