"""Plays records to one receiver, which takes them as fast as it wants to."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from penstock.clock import Clock, block
from penstock.playback.books import BookFeed, RebuiltBook
from penstock.playback.digest import Digest
from penstock.playback.merge import merged
from penstock.playback.pace import Pace
from penstock.playback.sources import RecordSource, nothing_received, select
from penstock.storage.log import Received

Batch = Sequence[Received]
"""Records that are due at the same time, in order; never empty."""


class Replay:
    """One replay of some streams: an iterator and an asynchronous iterator of its records.

    It can be iterated once. A receiver that is slow delays it, and it then catches up.
    """

    def __init__(
        self,
        open_source: Callable[[], RecordSource],
        patterns: Sequence[str] = (),
        *,
        since_ns: int | None = None,
        until_ns: int | None = None,
        speed: float | None = None,
        clock: Clock,
    ) -> None:
        """``speed``: seconds of the recording per second; None: as fast as possible.

        Raises:
            BadSpeed: the speed is not a number above zero.
        """
        self.emitted = 0
        """Records so far."""
        self._pace, self._clock, self._digest = Pace(speed, clock), clock, Digest()
        self._open_source, self._patterns = open_source, tuple(patterns)
        self._since_ns, self._until_ns = since_ns, until_ns
        self._begun = False

    @property
    def digest(self) -> str:
        """SHA-256 of everything emitted so far; see ``penstock.playback.digest``."""
        return self._digest.hexdigest()

    def __iter__(self) -> Iterator[Received]:
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[Batch]:
        """The records in batches: less work per record.

        Raises:
            NoData: nothing was received in the range, or nothing at all.
            UnknownStream: no stream matches one of the patterns.
            StorageError: the records cannot be read.
        """
        for records in self._windows():
            for step in self._pace.steps(records):
                if isinstance(step, float):
                    block(step)
                else:
                    yield self._counted(step)

    def books(self, every_s: float = 0.0, depth: int | None = None) -> Iterator[RebuiltBook]:
        """The order books that the records make, with their state as it was live.

        After each change, or at intervals of ``every_s`` seconds of receive time those that
        changed. ``depth`` is the number of levels per side; None for all.
        """
        feed = BookFeed(every_s, depth)
        for batch in self.batches():
            yield from feed.add(batch)
        yield from feed.rest()

    async def abooks(
        self, every_s: float = 0.0, depth: int | None = None
    ) -> AsyncIterator[RebuiltBook]:
        """The same as ``books``, for an event loop."""
        feed = BookFeed(every_s, depth)
        async for batch in self.abatches():
            for book in feed.add(batch):
                yield book
        for book in feed.rest():
            yield book

    async def __aiter__(self) -> AsyncIterator[Received]:
        async for batch in self.abatches():
            for each in batch:
                yield each

    async def abatches(self) -> AsyncIterator[Batch]:
        """The same as ``batches``, for an event loop. The records are read in a thread."""
        windows, loop = self._windows(), asyncio.get_running_loop()
        with ThreadPoolExecutor(1, "replay") as disk:
            try:
                while records := await loop.run_in_executor(disk, next, windows, None):
                    for step in self._pace.steps(records):
                        if isinstance(step, float):
                            await self._clock.sleep(step)
                        else:
                            yield self._counted(step)
            finally:
                disk.submit(windows.close)

    def _windows(self) -> Generator[list[Received], None, None]:
        if self._begun:
            raise RuntimeError("a replay can be iterated once: make another one")
        self._begun = True
        source = self._open_source()
        with closing(source):
            streams = select(source.streams(), self._patterns)
            windows = merged(source, streams, self._since_ns, self._until_ns)
            first = next(windows, None)
            if first is None:
                raise nothing_received(streams)
            yield first
            yield from windows

    def _counted(self, batch: Batch) -> Batch:
        self.emitted += len(batch)
        self._digest.update(batch)
        return batch
