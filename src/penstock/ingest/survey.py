"""Asks an exchange, with few requests, what a plan has to know of a range.

The same requests show how long responses take.
"""

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from penstock.clock import Clock
from penstock.connectors.markets import Gateways
from penstock.errors import BadJob, UnknownInterval
from penstock.exchanges.base import Exchange, ExchangeClient, Request, SymbolMap
from penstock.exchanges.paged import PagedEndpoint
from penstock.ingest.history import complete_until, first_open, iso, kept_from_ms, longest
from penstock.ingest.id_ranges import IdRange
from penstock.ingest.planned_time import Budget
from penstock.ingest.planner import Survey
from penstock.ingest.sampling import Sample, estimated, strata
from penstock.ingest.trade_bounds import Resolved, TradeBounds, is_dense
from penstock.ingest.trade_pages import Page
from penstock.ingest.trade_range import TradesCursor, target_of
from penstock.ingest.trades import page_requests
from penstock.jobs.kinds import Market
from penstock.market.channels import CANDLES, TRADES
from penstock.market.events import Candle
from penstock.market.interval import DAY_MS, Interval
from penstock.market.symbol import Symbol

T = TypeVar("T")
# Pages requested to estimate how many rows a range has.
_TRADE_SAMPLES = 16
_CANDLE_SAMPLES = 4


class SymbolMaps(Protocol):
    """The market listing of each exchange."""

    async def of(self, exchange_id: str) -> SymbolMap: ...


class SurveyContext(Protocol):
    """What a survey needs, of that which kinds of jobs receive."""

    @property
    def gateways(self) -> Gateways: ...

    @property
    def markets(self) -> SymbolMaps: ...

    @property
    def clock(self) -> Clock: ...


async def survey(
    context: SurveyContext,
    exchange_id: str,
    symbol: str,
    wanted: TradesCursor,
    timeframe: str | None = None,
) -> Survey:
    """What is known of a range of a market's trades, or of its candles of a timeframe.

    ``wanted`` has times or, for trades, ids; without a begin or an end it is all there is.

    Raises:
        UnknownExchange, UnknownSymbol, UnknownInterval: there is no such one.
        BadJob: there cannot be such a range, it is in the future, or the market has no trades.
        One of ``UNAVAILABLE``: the exchange is not available now.
    """
    gateway = await context.gateways.of(exchange_id)
    symbols = await context.markets.of(exchange_id)
    market = _SurveyedMarket(gateway, symbols, symbols.find(symbol), context.clock)
    target_of(Market(market.symbol.unified), wanted, "plan")
    if timeframe is None:
        return await _TradeSurvey(market).of(wanted)
    if timeframe not in gateway.exchange.intervals:
        raise UnknownInterval(timeframe, gateway.exchange.intervals)
    return await _CandleSurvey(market, Interval.parse(timeframe)).of(wanted)


@dataclass
class _SurveyedMarket:
    """One market, and how many requests were sent."""

    gateway: ExchangeClient
    symbols: SymbolMap
    symbol: Symbol
    clock: Clock
    requests: int = 0

    @property
    def exchange(self) -> Exchange:
        return self.gateway.exchange

    @property
    def now_ms(self) -> int:
        """The exchange's time."""
        ahead_ms = self.gateway.offset.middle_ms if self.gateway.offset else 0
        return round(self.clock.now_ms() + ahead_ms)

    async def fetch(self, request: Request[T]) -> T:
        self.requests += 1
        return await self.gateway.fetch(request)

    def endpoints(self, channel: str) -> tuple[PagedEndpoint, ...]:
        found = tuple(each for each in self.exchange.paged if each.channel == channel)
        if not found:
            raise BadJob("symbol", f"{self.exchange.name} has no pages of old {channel}")
        return found

    def surveyed(self, **known: Any) -> Survey:
        """A survey that ends now."""
        return Survey(
            exchange_id=self.exchange.name,
            symbol=self.symbol.unified,
            latency_ms=self.gateway.latency_ms or 0.0,
            budget=Budget(self.gateway.gate.used(), self.now_ms),
            requests=self.requests,
            **known,
        )


class _TradeSurvey:
    """The survey of a range of trades."""

    def __init__(self, market: _SurveyedMarket) -> None:
        self._market, self._exchange = market, market.exchange
        self._endpoints = market.endpoints(TRADES.name)
        self._request_for = page_requests(
            market.exchange, market.symbols, market.symbol, TRADES.name
        )
        self._overlap = 0

    async def of(self, wanted: TradesCursor) -> Survey:
        market, begun_ms = self._market, self._market.now_ms
        bounds = TradeBounds(self._exchange, self._fetch, self._newest, begun_ms)
        ids, note, _ = self._kept(await bounds.resolve(wanted), wanted, begun_ms)
        parts = self._parts(ids, begun_ms)
        if TRADES.name in self._exchange.consecutive:
            sizes, estimate = [part.size for part in parts], estimated([])._replace(rows=ids.size)
        else:
            each = [await self._samples(part, _TRADE_SAMPLES // len(parts)) for part in parts]
            sizes = [estimated(samples).rows for samples in each]
            estimate = estimated([sample for samples in each for sample in samples])
        return market.surveyed(
            endpoints=self._endpoints,
            category=self._request_for(0).category,
            parts=tuple(sizes),
            rows=estimate.rows,
            rows_error=estimate.error,
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
        rest = self._exchange.rest(self._market.symbols)
        return (await self._market.fetch(rest.latest(self._market.symbol, TRADES.name))).id

    def _kept(self, found: Resolved, wanted: TradesCursor, now_ms: int) -> Resolved:
        """The part of a range that the exchange still keeps."""
        days, id_at = self._endpoints[0].kept_days, self._exchange.trade_id_at
        if days is None or id_at is None:
            return found
        kept_ms = (now_ms // DAY_MS - days) * DAY_MS
        first, last = found.ids
        if first >= id_at(kept_ms):
            return found
        is_named = wanted.since_ms is not None or wanted.from_id is not None
        note = f"trades before {iso(kept_ms)} are not kept any more: the range begins then"
        ids = IdRange(id_at(kept_ms), max(last, id_at(kept_ms) - 1))
        return Resolved(ids, note if is_named else "")

    def _parts(self, ids: IdRange, now_ms: int) -> list[IdRange]:
        """The parts of a range of which no page covers two."""
        (span_ms, days), id_at = self._endpoints[0][-2:], self._exchange.trade_id_at
        if span_ms is None or days is None or id_at is None or not ids.size:
            return [ids]
        begin_ms = (now_ms // DAY_MS - days) * DAY_MS
        inner = [id_at(at_ms) for at_ms in range(begin_ms, now_ms + 1, span_ms)]
        firsts = [ids.first, *(first for first in inner if ids.first < first <= ids.last)]
        ends = [*firsts[1:], ids.last + 1]
        return [IdRange(one, other - 1) for one, other in zip(firsts, ends, strict=True)]

    async def _samples(self, part: IdRange, count: int) -> list[Sample]:
        """A page of each stratum, which ends where the stratum does."""
        found = list[Sample]()
        for ids in strata(part, count) if part.size else []:
            page = await self._fetch(ids.last + 1)
            first = ids.first if page.next > ids.last else max(ids.first, page.next)
            rows = sum(ids.first <= trade.id <= ids.last for trade in page.trades)
            found.append(Sample(ids.size, ids.last + 1 - first, rows))
        return found


class _CandleSurvey:
    """The survey of a range of candles."""

    def __init__(self, market: _SurveyedMarket, interval: Interval) -> None:
        self._market, self._exchange, self._interval = market, market.exchange, interval
        self._rest = market.exchange.rest(market.symbols)
        self._endpoints = market.endpoints(CANDLES.name)

    async def of(self, wanted: TradesCursor) -> Survey:
        now_ms, interval = self._market.now_ms, self._interval
        for name in ("from_id", "to_id"):
            if getattr(wanted, name) is not None:
                raise BadJob(f"cursor.{name}", "candles have no ids")
        for name in ("since_ms", "until_ms"):
            if (getattr(wanted, name) or 0) > now_ms:
                raise BadJob(f"cursor.{name}", f"{getattr(wanted, name)} is in the future")
        # The candle that is still open is not recorded.
        end_ms = interval.open_of(now_ms)
        end_ms = end_ms if wanted.until_ms is None else min(end_ms, wanted.until_ms)
        begin_ms, notes = first_open(interval, wanted.since_ms or 0), list[str]()
        kept_ms = kept_from_ms(self._exchange, interval, now_ms)
        if wanted.since_ms is not None and begin_ms < kept_ms:
            notes = [f"candles before {iso(kept_ms)} are not kept any more: the range begins then"]
        asked_ms = max(begin_ms, kept_ms, self._exchange.opened_ms)
        first_ms = await self._first_ms(first_open(interval, asked_ms), end_ms)
        if first_ms is None:
            notes = ["there are no candles in this range"]
        elif wanted.since_ms is not None and first_ms > asked_ms and not notes:
            notes = [f"the range begins before the listing: the first candle is {iso(first_ms)}"]
        opens = IdRange(0, -1)
        if first_ms is not None:
            opens = IdRange(0, _count(interval, first_ms, end_ms) - 1)
        samples = [Sample(opens.size, opens.size, opens.size)]
        if not self._exchange.empty_candles and first_ms is not None:
            samples = await self._samples(opens, first_ms, end_ms)
        rows, error = estimated(samples)
        return self._market.surveyed(
            timeframe=interval.text,
            endpoints=self._endpoints,
            category=self._request(interval, asked_ms, end_ms).category,
            parts=(opens.size,),
            rows=rows,
            rows_error=error,
            since_ms=asked_ms if first_ms is None else first_ms,
            until_ms=end_ms,
            notes=tuple(notes),
        )

    async def _first_ms(self, start_ms: int, end_ms: int) -> int | None:
        """The time of the first candle in [start, end), or of a longer one that contains it."""
        exchange = self._exchange
        interval = self._interval if exchange.candle_span is None else longest(exchange)
        at_ms = interval.open_of(start_ms)
        while at_ms < end_ms:
            page = await self._page(interval, at_ms, end_ms)
            if page:
                return max(start_ms, page[0].open_ms)
            at_ms = complete_until(exchange, interval, (at_ms, end_ms), page)
        return None

    async def _samples(self, opens: IdRange, first_ms: int, end_ms: int) -> list[Sample]:
        """A page of each stratum, which begins where the stratum does."""
        found, length_ms = list[Sample](), self._interval.next_open(first_ms) - first_ms
        for numbers in strata(opens, _CANDLE_SAMPLES):
            start_ms = first_ms + numbers.first * length_ms
            stop_ms = min(end_ms, start_ms + numbers.size * length_ms)
            page = await self._page(self._interval, start_ms, stop_ms)
            until_ms = complete_until(self._exchange, self._interval, (start_ms, stop_ms), page)
            covered = _count(self._interval, start_ms, until_ms)
            found.append(Sample(numbers.size, covered, len(page)))
        return found

    async def _page(self, interval: Interval, start_ms: int, end_ms: int) -> list[Candle]:
        return await self._market.fetch(self._request(interval, start_ms, end_ms))

    def _request(self, interval: Interval, start_ms: int, end_ms: int) -> Request[list[Candle]]:
        return self._rest.candles(self._market.symbol, interval, start_ms, end_ms)


def _count(interval: Interval, first_ms: int, end_ms: int) -> int:
    """How many candles begin in [first, end), if one begins at ``first_ms``."""
    if interval.fixed_ms is not None:
        return max(0, -(-(end_ms - first_ms) // interval.fixed_ms))
    return sum(1 for _ in interval.opens(first_ms, end_ms))
