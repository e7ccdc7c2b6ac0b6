"""Candles of a market for a chart: recorded ones where they are, computed from trades elsewhere.

How much is read is bounded: a chart of a busy market without recorded candles shows its newest
part, and says since when it is complete.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from penstock.coverage.model import GapRow
from penstock.errors import MissingExtra, NoDataset, NotCollected, NotOurRecord
from penstock.market.channels import AGG_TRADES, CANDLES, TRADES
from penstock.market.events import Candle
from penstock.market.interval import DAY_MS, MINUTE_MS, Interval
from penstock.monitor.candle_series import CandleSeries
from penstock.monitor.market_documents import (
    CandleGap,
    CandleInterval,
    Candles,
    CandlesDocument,
    CandleSource,
)
from penstock.monitor.market_names import Market, find_market
from penstock.monitor.trade_reading import TradeReading
from penstock.storage.log import LogReader, Span
from penstock.storage.log.keys import Stream

if TYPE_CHECKING:
    from penstock.dataset.dataset import Dataset

_MS_NS = 1_000_000
_MOST_TRADES = 100_000
"""The most trades that one chart is computed from: they take half a second."""
_MOST_RECORDED = 20_000
"""The most recorded candles that one chart is made of."""
_MOST_LAKE_MS = 2 * DAY_MS
"""The most time of the lake's trades that one chart is computed from."""
_MOST_GAPS = 500

OpenData = Callable[[], "Dataset"]


class CandleRange(Struct, frozen=True, kw_only=True):
    """Which candles are asked for."""

    exchange: str
    symbol: str
    interval: CandleInterval | None = None
    """None: one that fits what is recorded."""
    since_ms: int | None = None
    until_ms: int | None = None
    limit: int = 500


class CandlesRead(NamedTuple):
    """A chart without its gaps, and which of them belong to it."""

    document: CandlesDocument
    gaps_of: Stream
    since_ms: int
    until_ms: int


def read_candles(
    reader: LogReader, asked: CandleRange, now_ms: int, open_lake: OpenData | None = None
) -> CandlesRead:
    """The candles of a range. ``open_lake`` opens the collected data, if there is a lake.

    Raises:
        NotCollected, NoData: there is no such market, or nothing at all.
        StorageError: the log cannot be read.
    """
    streams = reader.streams()
    market = find_market(streams, asked.exchange, asked.symbol)
    exchange, symbol = market
    channels = {each.channel for each in streams if each[::2] == (exchange, symbol.slug)}
    names = [name for name in (TRADES.name, AGG_TRADES.name) if name in channels]
    trades = Stream(exchange, names[0], symbol.slug) if names else None
    text = asked.interval or _fitting(reader, trades, now_ms)
    interval = Interval.parse(text)
    until_ms = now_ms + 1 if asked.until_ms is None else min(asked.until_ms, now_ms + 1)
    since_ms = interval.open_of(max(until_ms - 1, 0)) - (asked.limit - 1) * _length_ms(interval)
    since_ms = max(since_ms, interval.open_of(asked.since_ms or 0), 0)
    chart = _Chart(reader, market, interval, since_ms, until_ms, now_ms)
    chart.add_recorded(channels)
    if trades is not None:
        chart.add_trades(trades)
    rows = chart.series.rows()
    if open_lake is not None and chart.complete_ms <= since_ms:
        first_ms = rows[0][0] if rows else interval.open_of(until_ms - 1)
        rows = [*chart.from_lake(open_lake, first_ms), *rows]
    return CandlesRead(
        CandlesDocument(
            exchange=exchange,
            symbol=symbol.unified,
            interval=text,
            items=[row for row in rows if since_ms <= row[0] < until_ms][-asked.limit :],
            gaps=[],
            source=chart.source,
            since_ms=max(chart.complete_ms, since_ms),
        ),
        trades or Stream(exchange, CANDLES.named(text), symbol.slug),
        since_ms,
        until_ms,
    )


def shown_gaps(rows: Iterable[GapRow], since_ms: int, until_ms: int) -> list[CandleGap]:
    """What is missing in a range, in order; the newest, if it is much."""
    found = [
        CandleGap(
            since_ms=row.since_ms or since_ms,
            until_ms=row.until_ms or until_ms,
            state=row.state,
            reason=row.reason or row.cause,
        )
        for row in rows
        if row.state != "filled"
        and (row.since_ms or since_ms) < until_ms
        and (row.until_ms or until_ms) > since_ms
    ]
    return sorted(found, key=lambda gap: gap.since_ms)[-_MOST_GAPS:]


@dataclass
class _Chart:
    """The candles of a range, and since when they are complete."""

    reader: LogReader
    market: Market
    interval: Interval
    since_ms: int
    until_ms: int
    now_ms: int

    def __post_init__(self) -> None:
        self.series = CandleSeries(self.interval)
        self.source: CandleSource = "nothing"
        self.complete_ms = self.until_ms
        self._recorded: tuple[int, int] | None = None
        """The range of the recorded candles."""

    def add_recorded(self, channels: set[str]) -> None:
        """Add recorded candles, of this interval or of the longest that divides it."""
        lengths = {
            _length_ms(each): each.text
            for each in map(Interval.parse, CANDLES.suffixes)
            if CANDLES.named(each.text) in channels
            and each.fixed_ms is not None
            and _length_ms(self.interval) % each.fixed_ms == 0
        }
        if not lengths:
            return
        exchange, symbol = self.market
        length_ms = max(lengths)
        stream = Stream(exchange, CANDLES.named(lengths[length_ms]), symbol.slug)
        rows = list(islice(self._candles_of(stream), _MOST_RECORDED))[::-1]
        # The first may be in the middle of an interval, with nothing known of what precedes it.
        while rows and self.interval.open_of(rows[0][0]) != rows[0][0]:
            del rows[0]
        if rows:
            self._recorded = rows[0][0], rows[-1][0] + length_ms
            self.complete_ms, self.source = rows[0][0], "candles"
        for row in rows:
            self.series.add_candle(row)

    def _candles_of(self, stream: Stream) -> Iterable[Candles]:
        span = Span(market_since_ns=self.since_ms * _MS_NS, market_until_ns=self.until_ms * _MS_NS)
        for stored in self.reader.scan(stream, span, reverse=True):
            try:
                event = stored.event
            except NotOurRecord:
                continue
            if isinstance(event, Candle):
                prices = event.open_text, event.high_text, event.low_text, event.close_text
                yield event.open_ms, *prices, event.volume_text

    def add_trades(self, stream: Stream) -> None:
        """Add trades where no candles are recorded: after them first, then before them."""
        ranges = [(self.since_ms, self.until_ms)]
        if self._recorded is not None:
            first_ms, end_ms = self._recorded
            ranges = [(end_ms, self.until_ms), (self.since_ms, first_ms)]
        left = _MOST_TRADES
        for since_ms, until_ms in ranges:
            if since_ms >= until_ms:
                continue
            # After now there is nothing: a bound would only cost a search.
            until_ns = None if until_ms > self.now_ms else until_ms * _MS_NS
            read = TradeReading(self.reader, stream, since_ms * _MS_NS, until_ns, most=left)
            part, oldest_ns = CandleSeries(self.interval), until_ms * _MS_NS - 1
            for trades in read:
                part.add(trades)
                oldest_ns = min(oldest_ns, *(each.at_ns for each in trades))
            left = read.left
            self.complete_ms = min(self.complete_ms, since_ms)
            if not read.complete:
                # The interval of the oldest one lacks trades.
                cut_ms = self.interval.open_of(oldest_ns // _MS_NS)
                self.complete_ms = self.interval.next_open(cut_ms)
                part.drop_before(self.complete_ms)
            if part:
                self.source = "trades" if self._recorded is None else "candles and trades"
                self.series.add_series(part)
            if not read.complete:
                return

    def from_lake(self, open_lake: OpenData, first_ms: int) -> list[Candles]:
        """The candles before a time that only the lake has: recorded, or else from trades."""
        if first_ms <= self.since_ms:
            return []
        exchange, symbol = self.market
        for from_trades in (False, True):
            since_ms = max(self.since_ms, first_ms - _MOST_LAKE_MS) if from_trades else 0
            try:
                frame = (
                    open_lake()
                    .candles(
                        self.interval.text,
                        symbol.unified,
                        exchange=exchange,
                        since=max(since_ms, self.since_ms),
                        until=first_ms,
                        from_trades=from_trades,
                        numbers="text",
                        on_gap="ignore",
                    )
                    .polars()
                )
            except (MissingExtra, NoDataset, NotCollected):
                return []
            if frame.height:
                self.complete_ms, self.source = max(since_ms, self.since_ms), "lake"
                columns = ("open", "high", "low", "close", "volume")
                rows = frame.select("time_ns", *columns).iter_rows()
                return [(at_ns // _MS_NS, *values) for at_ns, *values in rows]
        return []


def _fitting(reader: LogReader, trades: Stream | None, now_ms: int) -> CandleInterval:
    """The interval for a chart of all that is recorded: a short one for a market that is new."""
    first = None if trades is None else next(reader.scan(trades, limit=1), None)
    if first is None:
        return "1m"
    age_ms = now_ms - first.received_at_ns // _MS_NS
    if age_ms < 10 * MINUTE_MS:
        return "5s"
    return "15s" if age_ms < 30 * MINUTE_MS else "1m"


def _length_ms(interval: Interval) -> int:
    assert interval.fixed_ms is not None, "months are not offered"
    return interval.fixed_ms
