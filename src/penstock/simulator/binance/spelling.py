"""Formats numbers and rows as Binance does: prices and quantities with exactly eight decimals.

The market counts in ticks and lots. A listing has at most eight decimals of price and quantity
together, so even their product is exact and nothing is rounded. A page has a thousand rows, so each
kind of row is one ``%`` template per symbol and time unit, filled from integers.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.simulator.binance.units import MILLISECOND, TimeUnit
from penstock.simulator.market.book import Level
from penstock.simulator.market.market import AggTrade, Listing, Sums, Trade

DECIMALS = 8


def exact(units: int, decimals: int) -> str:
    """``units`` of 10^-decimals with eight decimals; further ones are truncated."""
    sign, units = ("-", -units) if units < 0 else ("", units)
    scaled = (
        units * 10 ** (DECIMALS - decimals)
        if decimals <= DECIMALS
        else units // 10 ** (decimals - DECIMALS)
    )
    whole, part = divmod(scaled, 10**DECIMALS)
    return f"{sign}{whole}.{part:08}"


class Kline(NamedTuple):
    """One candle: its open and close times, and the sums of its trades."""

    open_ms: int
    close_ms: int
    sums: Sums


class Spelling:
    """The templates of one symbol in one time unit."""

    def __init__(self, listing: Listing, unit: TimeUnit = MILLISECOND) -> None:
        self.symbol = listing.base + listing.quote
        self._price_decimals = listing.price_decimals
        self._quantity_decimals = listing.quantity_decimals
        self._tick = 10**listing.price_decimals
        self._lot = 10**listing.quantity_decimals
        price = _field(listing.price_decimals)
        quantity = _field(listing.quantity_decimals)
        amount = _field(listing.price_decimals + listing.quantity_decimals)
        name, time = self.symbol, unit.instant
        self._unit = unit
        self._level = f'["{price}","{quantity}"]'
        self._trade = (
            f'{{"id":%d,"price":"{price}","qty":"{quantity}","quoteQty":"{amount}",'
            f'"time":{time},"isBuyerMaker":%s,"isBestMatch":true}}'
        )
        self._agg_trade = (
            f'{{"a":%d,"p":"{price}","q":"{quantity}","f":%d,"l":%d,"T":{time},"m":%s,"M":true}}'
        )
        self._kline = (
            f'[{time},"{price}","{price}","{price}","{price}","{quantity}",{unit.last},'
            f'"{amount}",%d,"{quantity}","{amount}","0"]'
        )
        self._trade_frame = (
            f'{{"e":"trade","E":{time},"s":"{name}","t":%d,"p":"{price}","q":"{quantity}",'
            f'"T":{time},"m":%s,"M":true}}'
        )
        self._agg_trade_frame = (
            f'{{"e":"aggTrade","E":{time},"s":"{name}","a":%d,"p":"{price}","q":"{quantity}",'
            f'"f":%d,"l":%d,"T":{time},"m":%s,"M":true}}'
        )
        self._touch_frame = (
            f'{{"u":%d,"s":"{name}","b":"{price}","B":"{quantity}","a":"{price}","A":"{quantity}"}}'
        )

    def time(self, at_ms: int) -> str:
        """A time."""
        return self._unit.instant % at_ms

    def last_time(self, at_ms: int) -> str:
        """The end of a period whose last millisecond is ``at_ms``."""
        return self._unit.last % at_ms

    def price(self, ticks: int) -> str:
        """A price, or a difference of prices."""
        return exact(ticks, self._price_decimals)

    def quantity(self, lots: int) -> str:
        """A quantity of the base asset."""
        return exact(lots, self._quantity_decimals)

    def amount(self, tick_lots: int) -> str:
        """A quantity of the quote asset: price times quantity."""
        return exact(tick_lots, self._price_decimals + self._quantity_decimals)

    def average(self, tick_lots: int, lots: int) -> str:
        """The average price of ``lots`` that cost ``tick_lots``; zero without trades."""
        finer = 10**DECIMALS
        return exact(tick_lots * finer // lots if lots else 0, self._price_decimals + DECIMALS)

    def trades(self, trades: Iterable[Trade]) -> bytes:
        """The body of ``trades`` and ``historicalTrades``."""
        row, tick, lot, unit = self._trade, self._tick, self._lot, self._tick * self._lot
        rows = [
            row
            % (
                trade_id,
                price // tick,
                price % tick,
                quantity // lot,
                quantity % lot,
                (amount := price * quantity) // unit,
                amount % unit,
                at_ms,
                "false" if taker_buys else "true",
            )
            for trade_id, at_ms, price, quantity, taker_buys in trades
        ]
        return f"[{','.join(rows)}]".encode()

    def agg_trades(self, groups: Iterable[AggTrade]) -> bytes:
        """The body of ``aggTrades``."""
        row, tick, lot = self._agg_trade, self._tick, self._lot
        rows = [
            row
            % (
                group_id,
                price // tick,
                price % tick,
                quantity // lot,
                quantity % lot,
                first_id,
                last_id,
                at_ms,
                "false" if taker_buys else "true",
            )
            for group_id, at_ms, price, quantity, first_id, last_id, taker_buys in groups
        ]
        return f"[{','.join(rows)}]".encode()

    def klines(self, klines: Iterable[Kline]) -> bytes:
        """The body of ``klines``."""
        row, tick, lot, unit = self._kline, self._tick, self._lot, self._tick * self._lot
        rows = [
            row
            % (
                open_ms,
                sums.open // tick,
                sums.open % tick,
                sums.high // tick,
                sums.high % tick,
                sums.low // tick,
                sums.low % tick,
                sums.close // tick,
                sums.close % tick,
                sums.volume // lot,
                sums.volume % lot,
                close_ms,
                sums.quote // unit,
                sums.quote % unit,
                sums.trades,
                sums.taker_volume // lot,
                sums.taker_volume % lot,
                sums.taker_quote // unit,
                sums.taker_quote % unit,
            )
            for open_ms, close_ms, sums in klines
        ]
        return f"[{','.join(rows)}]".encode()

    def levels(self, levels: Sequence[Level]) -> str:
        """One side of a book."""
        row, tick, lot = self._level, self._tick, self._lot
        rows = [
            row % (price // tick, price % tick, quantity // lot, quantity % lot)
            for price, quantity in levels
        ]
        return f"[{','.join(rows)}]"

    def trade_frame(self, trade: Trade) -> bytes:
        """A payload of ``@trade``; the event time is the trade's time."""
        trade_id, at_ms, price, quantity, taker_buys = trade
        numbers = (*divmod(price, self._tick), *divmod(quantity, self._lot))
        maker_buys = "false" if taker_buys else "true"
        return (self._trade_frame % (at_ms, trade_id, *numbers, at_ms, maker_buys)).encode()

    def agg_trade_frame(self, group: AggTrade) -> bytes:
        """A payload of ``@aggTrade``."""
        group_id, at_ms, price, quantity, first_id, last_id, taker_buys = group
        numbers = (*divmod(price, self._tick), *divmod(quantity, self._lot))
        ids = (first_id, last_id, at_ms, "false" if taker_buys else "true")
        return (self._agg_trade_frame % (at_ms, group_id, *numbers, *ids)).encode()

    def touch_frame(self, update_id: int, bid: Level, ask: Level) -> bytes:
        """A payload of ``@bookTicker``."""
        tick, lot = self._tick, self._lot
        best = (*divmod(bid[0], tick), *divmod(bid[1], lot))
        worst = (*divmod(ask[0], tick), *divmod(ask[1], lot))
        return (self._touch_frame % (update_id, *best, *worst)).encode()


def _field(decimals: int) -> str:
    """A template for two integers: the whole part, and the decimals with at least one digit."""
    width = max(decimals, 1)
    return f"%d.%0{width}d" + "0" * (DECIMALS - width)
