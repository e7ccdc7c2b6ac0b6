"""Reads the ledger: what the state store says, and what a local log holds beyond that."""

from collections.abc import Iterable
from contextlib import closing
from typing import NamedTuple

from msgspec import Struct

from penstock.coverage.gap_rows import GapRows
from penstock.coverage.ledger import Interval, State, by_series
from penstock.coverage.model import By, GapRow, SlotCoverage
from penstock.coverage.projection import Projection
from penstock.coverage.series import Consecutive
from penstock.coverage.writing import STREAMED, read_coverage
from penstock.storage.log import EventLog, SlotStats
from penstock.storage.log.keys import Stream
from penstock.storage.state import StateStore

_MOST_READ = 1_000_000
"""Records that are read from a log for one stream, at most."""


class Ledger(NamedTuple):
    """The documents from which intervals are made."""

    coverage: list[SlotCoverage]
    gaps: list[GapRow]


class SeriesCoverage(Struct, frozen=True, kw_only=True):
    """The intervals of one series."""

    exchange: str
    channel: str
    symbol: str
    by: By
    intervals: list[Interval]

    @property
    def total(self) -> int:
        """Positions from the first to the last one known."""
        return self.intervals[-1].last - self.intervals[0].first + 1 if self.intervals else 0

    def size(self, *states: State) -> int:
        """Positions in these states."""
        return sum(each.size for each in self.intervals if each.state in states)

    def count(self, state: State) -> int:
        """Intervals in this state."""
        return sum(each.state == state for each in self.intervals)

    @property
    def unreported(self) -> int:
        """Positions that no slot holds and that were not reported as missing yet."""
        return self.total - self.size("complete", "filled", "gap", "unfillable")

    @property
    def share(self) -> float:
        """The share that is complete or filled, in percent; 100 only if nothing is missing."""
        missing = self.total - self.size("complete", "filled")
        if not missing:
            return 100.0
        return min(99.9999, 100 * (1 - missing / self.total))


async def read_ledger(store: StateStore, exchange: str | None = None) -> Ledger:
    """What the store says about all series, or those of one exchange.

    Raises:
        StorageError: the store failed.
    """
    coverage = await read_coverage(store, exchange=exchange)
    return Ledger(coverage, await GapRows(store).find(exchange=exchange))


def series_of(ledger: Ledger) -> list[SeriesCoverage]:
    """All series of a ledger, in order."""
    return [
        SeriesCoverage(**stream._asdict(), by=by, intervals=found)
        for (stream, by), found in by_series(ledger.coverage, ledger.gaps).items()
    ]


class CaughtUp(NamedTuple):
    """A ledger with what a local log holds beyond it."""

    ledger: Ledger
    skipped: list[Stream]
    """Streams with too many records to be read now."""


def caught_up(ledger: Ledger, log: EventLog, log_id: int, consecutive: Consecutive) -> CaughtUp:
    """Add what the slots of a log have recorded and not projected yet.

    Raises:
        StorageError, NotOurRecord: the log cannot be read.
    """
    found = {each.id: each for each in ledger.coverage}
    gaps, skipped = list(ledger.gaps), list[Stream]()
    with closing(log.reader()) as reader:
        for stats in reader.stats():
            mine = [
                each for each in ledger.coverage if (each.log_id, each.slot) == (log_id, stats.slot)
            ]
            is_streamed = stats.slot.startswith(STREAMED)
            projection = Projection(log_id, stats.slot, consecutive, is_streamed=is_streamed)
            numbers = _to_read(stats, mine, skipped)
            projection.resume([each for each in mine if each.stream in numbers], numbers)
            projection.found = gaps.append
            for _ in projection.catch_up(reader):
                pass
            found |= {each.id: each for each in projection.changed()}
    return CaughtUp(Ledger(list(found.values()), gaps), skipped)


def _to_read(
    stats: SlotStats, stored: Iterable[SlotCoverage], skipped: list[Stream]
) -> dict[Stream, int]:
    """The last numbers of streams that are ahead of what is stored, and can be read quickly."""
    known = {each.stream: each.number for each in stored}
    numbers: dict[Stream, int] = {}
    for each in stats.streams:
        ahead = each.last_number - known.get(each.stream, 0)
        if ahead > _MOST_READ:
            skipped.append(each.stream)
        elif ahead:
            numbers[each.stream] = each.last_number
    return numbers
