"""Divides a range of time into chunks of candles, which are fetched in any order. Pure.

A chunk is the intervals of one page. Few chunks are open at a time, so the candles in memory are
limited by the concurrency, not by the range. A batch is the oldest open chunks, up to the first one
that is not fetched.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from penstock.errors import ExchangeError
from penstock.ingest.chunks import MAX_ATTEMPTS, OPEN_BATCHES
from penstock.market.events import Candle

EMPTY_CHUNKS = 3
"""After so many chunks in a row without a candle no more are given out: where nothing was traded
for long, another way is faster than requesting every page."""
MOST_PAGES = 16
"""In a batch: the cursor is saved after each."""


class CandleChunk(NamedTuple):
    """Candles to request: those that begin in [start, end)."""

    start_ms: int
    end_ms: int
    attempt: int = 1
    """How often it is requested, this time included."""


class CandleBatch(NamedTuple):
    """All candles that begin in [start, end)."""

    start_ms: int
    end_ms: int
    pages: list[Sequence[Candle]]
    """Oldest first."""


@dataclass
class _Open:
    chunk: CandleChunk
    page: Sequence[Candle] | None = None


class CandleChunkQueue:
    """The chunks of a range of whole intervals."""

    def __init__(self, range_ms: tuple[int, int], page_ms: int) -> None:
        self.concurrency = 1
        """How many chunks are fetched at a time."""
        self._next_ms, self._end_ms = range_ms
        self._page_ms = page_ms
        self._open: deque[_Open] = deque()
        self._again: list[CandleChunk] = []
        self._empty = 0

    @property
    def is_done(self) -> bool:
        """Whether all batches of the range were handed out."""
        return self._next_ms >= self._end_ms and not self._open

    @property
    def rows(self) -> int:
        """The candles in memory."""
        return sum(len(each.page or ()) for each in self._open)

    def take(self) -> CandleChunk | None:
        """The next chunk to request; None if there is none until another one is fetched."""
        if self._again:
            return heappop(self._again)
        is_full = len(self._open) >= OPEN_BATCHES * self.concurrency
        if is_full or self._next_ms >= self._end_ms or self._empty >= EMPTY_CHUNKS:
            return None
        end_ms = min(self._end_ms, self._next_ms + self._page_ms)
        chunk = CandleChunk(self._next_ms, end_ms)
        self._open.append(_Open(chunk))
        self._next_ms = end_ms
        return chunk

    def put_back(self, chunk: CandleChunk, reason: str, *, was_sent: bool = True) -> None:
        """Return a chunk that was refused. An attempt is counted if a request was sent.

        Raises:
            ExchangeError: it was requested too often.
        """
        if was_sent and chunk.attempt >= MAX_ATTEMPTS:
            raise ExchangeError(
                f"The candles from {chunk.start_ms} to {chunk.end_ms} were requested"
                f" {chunk.attempt} times: {reason}"
            )
        heappush(self._again, chunk._replace(attempt=chunk.attempt + was_sent))

    def fetched(self, chunk: CandleChunk, page: Sequence[Candle]) -> None:
        """Add all candles of a chunk."""
        found = next(each for each in self._open if each.chunk.start_ms == chunk.start_ms)
        found.page = page

    def next_batch(self) -> CandleBatch | None:
        """The oldest chunks, if they are fetched."""
        begin_ms, end_ms = self._open[0].chunk.start_ms if self._open else 0, 0
        pages: list[Sequence[Candle]] = []
        while self._open and (page := self._open[0].page) is not None and len(pages) < MOST_PAGES:
            end_ms = self._open.popleft().chunk.end_ms
            pages.append(page)
            self._empty = 0 if page else self._empty + 1
        return CandleBatch(begin_ms, end_ms, pages) if pages else None
