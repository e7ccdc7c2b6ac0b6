"""The survey of a range of candles: where it begins, and how many candles it has.

Where intervals without trades have no candle, the number is estimated from some pages.
"""

from penstock.errors import BadJob
from penstock.ingest.history import complete_until, first_open, iso, kept_from_ms, longest
from penstock.ingest.planner import Survey
from penstock.ingest.surveyed_market import SurveyedMarket
from penstock.ingest.trade_range import TradesCursor
from penstock.ingest.volume_curve import mean_of
from penstock.market.channels import CANDLES
from penstock.market.interval import Interval

# Pages that are requested for an estimate.
_SAMPLES = 4


class CandleSurvey:
    """The survey of one range."""

    def __init__(self, market: SurveyedMarket, interval: Interval) -> None:
        self._market, self._exchange, self._interval = market, market.exchange, interval
        self._begun_ms = market.now_ms

    async def of(self, wanted: TradesCursor) -> Survey:
        """See ``survey``."""
        self._check(wanted)
        interval, since_ms = self._interval, wanted.since_ms
        # The candle that is still open is not recorded.
        end_ms = interval.open_of(self._begun_ms)
        end_ms = end_ms if wanted.until_ms is None else min(end_ms, wanted.until_ms)
        kept_ms = kept_from_ms(self._exchange, interval, self._begun_ms)
        start_ms = first_open(interval, max(since_ms or 0, kept_ms, self._exchange.opened_ms))
        first_ms = await self._first_ms(start_ms, end_ms)
        count = 0 if first_ms is None else _count(interval, first_ms, end_ms)
        rows, error = await self._estimated(first_ms or 0, end_ms, count)
        note = ""
        if first_ms is None:
            note = "there are no candles in this range"
        elif since_ms is not None and since_ms < kept_ms:
            note = f"candles before {iso(kept_ms)} are not kept any more: the range begins then"
        elif since_ms is not None and first_ms > first_open(interval, since_ms):
            note = f"the range begins before the listing: the first candle is {iso(first_ms)}"
        request = self._market.rest.candles(self._market.symbol, interval, start_ms, end_ms)
        return self._market.surveyed(
            timeframe=interval.text,
            endpoints=self._market.endpoints(CANDLES.name),
            category=request.category,
            parts=(count,),
            rows=rows,
            rows_error=error,
            # Months differ in length, so that a page shows where the next one begins.
            is_walk=interval.fixed_ms is None,
            since_ms=start_ms if first_ms is None else first_ms,
            until_ms=end_ms,
            notes=(note,) if note else (),
        )

    def _check(self, wanted: TradesCursor) -> None:
        for name in ("from_id", "to_id"):
            if getattr(wanted, name) is not None:
                raise BadJob(f"cursor.{name}", "candles have no ids")
        for name, at_ms in (("since_ms", wanted.since_ms), ("until_ms", wanted.until_ms)):
            if at_ms is not None and at_ms > self._begun_ms:
                raise BadJob(f"cursor.{name}", f"{at_ms} is in the future")

    async def _first_ms(self, start_ms: int, end_ms: int) -> int | None:
        """The time of the first candle in [start, end), or of a longer one that contains it."""
        exchange = self._exchange
        interval = self._interval if exchange.candle_span is None else longest(exchange)
        at_ms = interval.open_of(start_ms)
        while at_ms < end_ms:
            page = await self._market.candles(interval, at_ms, end_ms)
            if page:
                return max(start_ms, page[0].open_ms)
            at_ms = complete_until(exchange, interval, (at_ms, end_ms), page)
        return None

    async def _estimated(self, first_ms: int, end_ms: int, count: int) -> tuple[int, float]:
        """How many of so many intervals have a candle, and the error."""
        if self._exchange.empty_candles or not count:
            return count, 0.0
        size, interval = self._market.candle_page, self._interval
        starts = [first_ms]
        if count > size:
            last_ms = end_ms - size * (interval.next_open(first_ms) - first_ms)
            step_ms = (last_ms - first_ms) / (_SAMPLES - 1)
            starts = [interval.open_of(first_ms + round(step_ms * n)) for n in range(_SAMPLES)]
        shares = []
        for start_ms in starts:
            page = await self._market.candles(interval, start_ms, end_ms)
            until_ms = complete_until(self._exchange, interval, (start_ms, end_ms), page)
            shares.append(len(page) / _count(interval, start_ms, until_ms))
        share = mean_of(shares)
        return round(share.value * count), 0.0 if count <= size else share.error


def _count(interval: Interval, first_ms: int, end_ms: int) -> int:
    """How many candles begin in [first, end), if one begins at ``first_ms``."""
    if interval.fixed_ms is not None:
        return max(0, -(-(end_ms - first_ms) // interval.fixed_ms))
    return sum(1 for _ in interval.opens(first_ms, end_ms))
