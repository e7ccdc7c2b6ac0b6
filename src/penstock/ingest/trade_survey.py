"""The survey of a range of trades: its ids, and how many trades they are.

Where ids increase by one, they tell it. Elsewhere it is estimated from the volume.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from penstock.errors import BadJob
from penstock.ingest.history import iso, length_ms
from penstock.ingest.id_ranges import IdRange
from penstock.ingest.planner import Survey
from penstock.ingest.surveyed_market import SurveyedMarket
from penstock.ingest.trade_bounds import Resolved, TradeBounds, is_dense
from penstock.ingest.trade_pages import Page
from penstock.ingest.trade_range import TradesCursor
from penstock.ingest.trades import page_requests
from penstock.ingest.volume_curve import Estimate, VolumeCurve, mean_of
from penstock.market.channels import TRADES
from penstock.market.interval import DAY_MS, MINUTE_MS, Interval

# Pages of trades and of candles that are requested for an estimate.
_SAMPLES = 32
_CURVE_PAGES = 2


class TradeSurvey:
    """The survey of one range."""

    def __init__(self, market: SurveyedMarket) -> None:
        self._market, self._exchange = market, market.exchange
        self._endpoints = market.endpoints(TRADES.name)
        self._request_for = page_requests(
            market.exchange, market.symbols, market.symbol, TRADES.name
        )
        self._begun_ms = market.now_ms
        self._overlap = 0

    async def of(self, wanted: TradesCursor) -> Survey:
        """See ``survey``."""
        bounds = TradeBounds(self._exchange, self._fetch, self._newest, self._begun_ms)
        ids, note, _ = self._kept(await bounds.resolve(wanted), wanted)
        parts, error = [ids.size], 0.0
        if TRADES.name not in self._exchange.consecutive:
            parts, error = await self._estimated(ids) if ids.size else ([0], 0.0)
        return self._market.surveyed(
            endpoints=self._endpoints,
            category=self._request_for(0).category,
            parts=tuple(parts),
            rows=sum(parts),
            rows_error=error,
            overlap=self._overlap,
            is_walk=not is_dense(self._exchange),
            from_id=ids.first,
            to_id=ids.last,
            since_ms=wanted.since_ms,
            until_ms=wanted.until_ms,
            notes=(note,) if note else (),
        )

    async def _fetch(self, cursor: int) -> Page:
        page = await self._market.fetch(self._request_for(cursor))
        if self._exchange.trade_pages == "after_ns" and page.trades:
            # The next page begins with the trades of the last millisecond.
            last_ms = page.trades[-1].at_ms
            self._overlap = sum(trade.at_ms == last_ms for trade in page.trades)
        return page

    async def _newest(self) -> int | None:
        request = self._market.rest.latest(self._market.symbol, TRADES.name)
        return (await self._market.fetch(request)).id

    @property
    def _id_at(self) -> Callable[[int], int]:
        if self._exchange.trade_id_at is None:
            raise BadJob("symbol", f"{self._exchange.name} has no ids that tell where trades are")
        return self._exchange.trade_id_at

    def _kept(self, found: Resolved, wanted: TradesCursor) -> Resolved:
        """The part of a range that the exchange still keeps."""
        days = self._endpoints[0].kept_days
        if days is None:
            return found
        kept_ms = (self._begun_ms // DAY_MS - days) * DAY_MS
        first = self._id_at(kept_ms)
        if found.ids.first >= first:
            return found
        is_named = wanted.since_ms is not None or wanted.from_id is not None
        note = f"trades before {iso(kept_ms)} are not kept any more: the range begins then"
        return Resolved(IdRange(first, max(found.ids.last, first - 1)), note if is_named else "")

    async def _estimated(self, ids: IdRange) -> tuple[list[int], float]:
        """How many trades there are in each part whose pages are separate, and the error."""
        page = await self._fetch(ids.last + 1)
        if page.next <= ids.first:
            return [sum(trade.id >= ids.first for trade in page.trades)], 0.0
        since_ms, until_ms = self._time_of(ids.first), self._time_of(ids.last) + 1
        curve = await self._curve(since_ms, until_ms, _CURVE_PAGES)
        per_volume = await self._per_volume(curve, page)
        return [
            round(curve.within(*part).total * per_volume.value)
            for part in pairwise(self._ends(since_ms, until_ms))
        ], per_volume.error

    async def _curve(self, since_ms: int, until_ms: int, pages: int) -> VolumeCurve:
        """The volume of a range, from the shortest candles of which so many pages have it all."""
        intervals = sorted(map(Interval.parse, self._exchange.intervals), key=length_ms)
        shortest_ms = (until_ms - since_ms) / (pages * self._market.candle_page - 1)
        interval = next(
            (each for each in intervals if length_ms(each) >= shortest_ms), intervals[-1]
        )
        start_ms = interval.open_of(since_ms)
        candles = await self._market.all_candles(interval, start_ms, until_ms)
        return VolumeCurve.of(candles, interval, self._begun_ms).within(since_ms, until_ms)

    async def _per_volume(self, curve: VolumeCurve, newest: Page) -> Estimate:
        """How many trades there are for a volume of one."""
        if not curve.total:
            return Estimate(0.0)
        known = _per_volume(newest)
        pages = curve.total * known / self._endpoints[0].costs[-1].rows
        # Not so many that they would be a large part of the range itself.
        times = await self._times(curve, max(2, min(_SAMPLES, round(pages / 4))))
        sampled = [_per_volume(await self._fetch(self._id_at(at_ms))) for at_ms in times]
        return mean_of([each for each in sampled if each] or [known])

    async def _times(self, curve: VolumeCurve, count: int) -> list[int]:
        """The middles of so many shares of the volume, to the minute or better."""
        found = list[int]()
        for bin_, shares in Counter(map(curve.bin_at, curve.times(count))).items():
            fine = VolumeCurve((bin_,))
            if bin_.until_ms - bin_.since_ms > MINUTE_MS:
                fine = await self._curve(bin_.since_ms, bin_.until_ms, pages=1)
            found += fine.times(shares)
        return found

    def _ends(self, since_ms: int, until_ms: int) -> list[int]:
        """Where the parts of a range begin, of which no page covers two, and the end."""
        if (span_ms := self._endpoints[0].span_ms) is None:
            return [since_ms, until_ms]
        inner = range(since_ms // span_ms * span_ms + span_ms, until_ms, span_ms)
        return [since_ms, *inner, until_ms]

    def _time_of(self, trade_id: int) -> int:
        """The time that an id begins with."""
        return bisect_right(range(self._begun_ms + 1), trade_id, key=self._id_at) - 1


def _per_volume(page: Page) -> float:
    volume = float(sum(trade.quantity for trade in page.trades))
    return len(page.trades) / volume if volume else 0.0
