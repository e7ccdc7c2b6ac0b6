"""Candles from trades or from shorter candles, in any order of arrival. Exact and pure.

The dataset computes the same with polars; this needs no extra, and serves a chart that is drawn
from a few thousand trades.
"""

from collections.abc import Iterable
from decimal import Context, Decimal

from msgspec import Struct

from penstock.market.interval import Interval
from penstock.monitor.market_documents import Candles

_MS_NS = 1_000_000
_exact = Context(prec=400).add
"""Adds without rounding: numbers have at most 100 digits."""

Place = tuple[int, int]
"""The time of a trade in nanoseconds and its id, by which trades are ordered."""


class Traded(Struct, frozen=True, gc=False):
    """What a candle needs of a trade; decoded from its record."""

    at_ns: int
    id: int
    price: str
    quantity: str


class _Candle(Struct, gc=False):
    first: Place
    last: Place
    open: str
    close: str
    high: str
    low: str
    highest: Decimal
    lowest: Decimal
    volume: Decimal


class CandleSeries:
    """The candles of one interval."""

    def __init__(self, interval: Interval) -> None:
        self.interval = interval
        self._candles: dict[int, _Candle] = {}

    def add(self, trades: Iterable[Traded]) -> None:
        """Add trades, each once."""
        candles, interval = self._candles, self.interval
        since_ns = until_ns = 0
        candle: _Candle | None = None
        for trade in trades:
            at_ns, price = trade.at_ns, trade.price
            if not since_ns <= at_ns < until_ns:
                open_ms = interval.open_of(at_ns // _MS_NS)
                since_ns, until_ns = open_ms * _MS_NS, interval.next_open(open_ms) * _MS_NS
                candle = candles.get(open_ms)
            place, amount = (at_ns, trade.id), Decimal(trade.quantity)
            if candle is None:
                number = Decimal(price)
                candle = candles[since_ns // _MS_NS] = _Candle(
                    place, place, price, price, price, price, number, number, amount
                )
                continue
            if place < candle.first:
                candle.first, candle.open = place, price
            if place > candle.last:
                candle.last, candle.close = place, price
            if price not in (candle.high, candle.low):
                number = Decimal(price)
                if number > candle.highest:
                    candle.highest, candle.high = number, price
                elif number < candle.lowest:
                    candle.lowest, candle.low = number, price
            candle.volume = _exact(candle.volume, amount)

    def add_candle(self, row: Candles) -> None:
        """Add a shorter candle, or one of the same length."""
        open_ms, open_, high, low, close, volume = row
        place = (open_ms * _MS_NS, -1)  # before any trade of the same time
        new = _Candle(
            place, place, open_, close, high, low, Decimal(high), Decimal(low), Decimal(volume)
        )
        self._add(self.interval.open_of(open_ms), new)

    def add_series(self, other: "CandleSeries") -> None:
        """Add the candles of a series of the same interval, which is not used any more."""
        for open_ms, candle in other._candles.items():
            self._add(open_ms, candle)

    def __bool__(self) -> bool:
        return bool(self._candles)

    def _add(self, open_ms: int, new: _Candle) -> None:
        candle = self._candles.setdefault(open_ms, new)
        if candle is new:
            return
        if new.first < candle.first:
            candle.first, candle.open = new.first, new.open
        if new.last > candle.last:
            candle.last, candle.close = new.last, new.close
        if new.highest > candle.highest:
            candle.highest, candle.high = new.highest, new.high
        if new.lowest < candle.lowest:
            candle.lowest, candle.low = new.lowest, new.low
        candle.volume = _exact(candle.volume, new.volume)

    def row(self, open_ms: int) -> Candles | None:
        """The candle that opened then; None if there was no trade in it."""
        candle = self._candles.get(open_ms)
        if candle is None:
            return None
        volume = _plain(candle.volume)
        return open_ms, candle.open, candle.high, candle.low, candle.close, volume

    def rows(self) -> list[Candles]:
        """All candles, oldest first."""
        return [row for open_ms in sorted(self._candles) if (row := self.row(open_ms)) is not None]

    def drop_before(self, open_ms: int) -> None:
        """Forget the candles that opened before this time."""
        for each in [each for each in self._candles if each < open_ms]:
            del self._candles[each]


def _plain(value: Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
