"""The candles of one market that the log holds, and the gaps between them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.clock import Clock
from penstock.market.channels import CANDLES
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol
from penstock.storage.log import EVERYTHING, LogReader, Span
from penstock.storage.log.keys import Stream, id_of_key, key_of_id

# Intervals to read at once; other tasks run in between.
_AT_ONCE = 20_000
_MONTH_MS = 31 * 86_400_000


class CandleGap(NamedTuple):
    """A time range [since, until); both are open times of candles."""

    since_ms: int
    until_ms: int


class HeldCandles:
    """The candles of one market and interval, in all slots."""

    def __init__(self, log: LogReader, exchange: str, symbol: Symbol, interval: Interval) -> None:
        self._log, self._interval = log, interval
        self._stream = Stream(exchange, CANDLES.named(interval.text), symbol.slug)

    def oldest_ms(self) -> int | None:
        """The open time of the oldest candle; None if there is none."""
        return self._first(reverse=False)

    def newest_ms(self) -> int | None:
        """The open time of the latest candle; None if there is none."""
        return self._first(reverse=True)

    def newest_in(self, start_ms: int, end_ms: int) -> int | None:
        """The open time of the latest candle in [start, end); None if there is none."""
        return self._first(reverse=True, span=Span(key_of_id(start_ms), key_of_id(end_ms)))

    def _first(self, *, reverse: bool, span: Span = EVERYTHING) -> int | None:
        found = next(self._log.scan(self._stream, span, reverse=reverse, limit=1), None)
        return None if found is None else id_of_key(found.key)

    def opens(self, start_ms: int, end_ms: int) -> set[int]:
        """The open times of the candles in [start, end)."""
        span = Span(key_of_id(start_ms), key_of_id(end_ms))
        found = map(id_of_key, self._log.keys_in(self._stream, [span]))
        return {open_ms for open_ms in found if open_ms is not None}

    async def gaps(self, start_ms: int, end_ms: int, clock: Clock) -> list[CandleGap]:
        """The gaps in [start, end); both bounds are open times of candles."""
        gaps: list[CandleGap] = []
        step_ms = _AT_ONCE * (self._interval.fixed_ms or _MONTH_MS)
        expected_ms = start_ms
        for begin_ms in range(start_ms, end_ms, step_ms):
            for open_ms in sorted(self.opens(begin_ms, min(begin_ms + step_ms, end_ms))):
                gaps += self._between(expected_ms, open_ms)
                expected_ms = self._interval.next_open(open_ms)
            await clock.sleep(0)
        return [*gaps, *self._between(expected_ms, end_ms)]

    def _between(self, expected_ms: int, open_ms: int) -> Iterator[CandleGap]:
        # Only if a candle fits: an exchange's weeks may begin on another day than ours.
        if self._interval.next_open(expected_ms) <= open_ms:
            yield CandleGap(expected_ms, open_ms)


def without(gaps: Iterable[CandleGap], known: Iterable[CandleGap]) -> list[CandleGap]:
    """The parts of the gaps outside of the ranges ``known``."""
    left = list(gaps)
    for other in known:
        left = [
            part
            for gap in left
            for part in (
                CandleGap(gap.since_ms, min(gap.until_ms, other.since_ms)),
                CandleGap(max(gap.since_ms, other.until_ms), gap.until_ms),
            )
            if part.since_ms < part.until_ms
        ]
    return left


def joined(gaps: Iterable[CandleGap], near_ms: int) -> list[CandleGap]:
    """The same gaps; those at most ``near_ms`` apart are joined."""
    found: list[CandleGap] = []
    for gap in sorted(gaps):
        if found and gap.since_ms - found[-1].until_ms <= near_ms:
            found[-1] = CandleGap(found[-1].since_ms, max(found[-1].until_ms, gap.until_ms))
        else:
            found.append(gap)
    return found
