"""Divides a range of ids into chunks, which are fetched in any order and gathered in batches. Pure.

A chunk is the ids of one page. A batch is consecutive chunks; it is complete when every id of it is
fetched or known not to exist. Batches are handed out in order. Few are open at a time, so the rows
in memory are limited by the concurrency, not by the range.
"""

from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from penstock.errors import ExchangeError
from penstock.ingest.id_ranges import IdRange
from penstock.ingest.trade_pages import Covered, NumberedTrade

MAX_ATTEMPTS = 10
"""How often a chunk is requested without any of its ids in the response, before its batch fails."""
OPEN_BATCHES = 3
"""While the oldest batch waits for its last chunk, those of the next ones are fetched."""


class Chunk(NamedTuple):
    """Ids to request, both ends included."""

    ids: IdRange
    attempt: int = 1
    """How often it is requested, this time included."""
    is_repeat: bool = False
    """Whether a page covered these ids and lacked some. What it lacks again does not exist."""


class Batch(NamedTuple):
    """The trades of consecutive ids."""

    ids: IdRange
    trades: list[NumberedTrade]
    """By id, each once."""
    absent: list[IdRange]
    """The ids that the exchange does not have."""


@dataclass
class _OpenBatch:
    ids: IdRange
    left: int
    """How many ids are neither fetched nor known not to exist."""
    trades: dict[int, NumberedTrade] = field(default_factory=dict)


class ChunkQueue:
    """The chunks of a range. Every id that is left is in one chunk, waiting or taken."""

    def __init__(self, ids: IdRange, size: int, concurrency: int = 1) -> None:
        self.concurrency = concurrency
        """How many chunks are fetched at a time, and how many a new batch has."""
        self._size = size
        self._next, self._last = ids
        self._fresh: deque[Chunk] = deque()
        self._again: list[Chunk] = []
        self._open: deque[_OpenBatch] = deque()

    @property
    def is_done(self) -> bool:
        """Whether all batches were handed out."""
        return self._next > self._last and not self._open

    @property
    def rows(self) -> int:
        """The trades in memory."""
        return sum(len(batch.trades) for batch in self._open)

    def take(self) -> Chunk | None:
        """The next chunk to request; None if there is none until another one is fetched."""
        if self._again:
            return heappop(self._again)
        if not self._fresh:
            self._open_batch()
        return self._fresh.popleft() if self._fresh else None

    def _open_batch(self) -> None:
        if self._next > self._last or len(self._open) >= OPEN_BATCHES:
            return
        end = min(self._last + 1, self._next + self._size * self.concurrency)
        ids = IdRange(self._next, end - 1)
        self._open.append(_OpenBatch(ids, ids.size))
        starts = range(ids.first, end, self._size)
        self._fresh.extend(Chunk(IdRange(at, min(at + self._size, end) - 1)) for at in starts)
        self._next = end

    def put_back(self, chunk: Chunk, reason: str, *, was_sent: bool = True) -> None:
        """Return a chunk that was refused, or of which nothing was in the response.

        An attempt is counted if a request was sent.

        Raises:
            ExchangeError: it was requested too often. The batch fails.
        """
        if not was_sent:
            heappush(self._again, chunk)
            return
        if chunk.attempt >= MAX_ATTEMPTS:
            raise ExchangeError(
                f"The trades with ids from {chunk.ids.first} to {chunk.ids.last} were requested"
                f" {chunk.attempt} times: {reason}"
            )
        heappush(self._again, chunk._replace(attempt=chunk.attempt + 1))

    def fetched(self, chunk: Chunk, page: Covered) -> None:
        """Add the trades of a page that covers a chunk, or one end of it.

        Ids that are covered and lacking are requested once more, before they count as absent. What
        is not covered is requested again. A page without any id of a whole chunk counts as a wrong
        one: an exchange that returns the same page for ever would seem to have no other trades.

        Raises:
            ExchangeError: the page has nothing of the chunk, as those before.
        """
        if page.ended:
            self.put_back(chunk, page.ended)
            return
        (first, last), covered = chunk.ids, page.ids
        ids = IdRange(max(first, covered.first), min(last, covered.last))
        found = {each.id: each for each in page.trades if ids.first <= each.id <= ids.last}
        if not ids.size or (not found and ids.size >= self._size):
            self.put_back(chunk, "the response has none of them")
            return
        batch = next(each for each in self._open if each.ids.first <= first <= each.ids.last)
        batch.trades.update(found)
        batch.left -= ids.size
        lacking = [] if chunk.is_repeat else _lacking(ids, batch.trades)
        if lacking:
            repeat = IdRange(lacking[0].first, lacking[-1].last)
            batch.left += repeat.size
            heappush(self._again, Chunk(repeat, is_repeat=True))
        for rest in (IdRange(first, ids.first - 1), IdRange(ids.last + 1, last)):
            if rest.size:
                heappush(self._again, Chunk(rest, is_repeat=chunk.is_repeat))

    def next_batch(self) -> Batch | None:
        """The oldest batch, once it is complete."""
        if not self._open or self._open[0].left:
            return None
        batch = self._open.popleft()
        trades = [batch.trades[number] for number in sorted(batch.trades)]
        return Batch(batch.ids, trades, _lacking(batch.ids, batch.trades))


def _lacking(ids: IdRange, trades: dict[int, NumberedTrade]) -> list[IdRange]:
    """The parts of a range without trades, in order."""
    if all(number in trades for number in range(ids.first, ids.last + 1)):
        return []
    present = [number for number in range(ids.first, ids.last + 1) if number in trades]
    ends = zip([ids.first - 1, *present], [*present, ids.last + 1], strict=True)
    return [IdRange(one + 1, other - 1) for one, other in ends if other - one > 1]
