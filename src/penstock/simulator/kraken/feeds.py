"""Computes the frames of channels that are due in a time range, as pure functions of time.

Trades, tickers and candles are sent when a trade happens, with the trades of one time together; a
book is sent when its slot of 100 ms has ended. While a market has no trades, a query costs one
comparison.
"""

from collections.abc import Callable, Sequence
from itertools import groupby

from penstock.simulator.engine.exchange import StreamFeed
from penstock.simulator.engine.pacing import DueTrades, Frames, every
from penstock.simulator.kraken import info, times
from penstock.simulator.kraken.checksum import checksum
from penstock.simulator.kraken.depth import Depth
from penstock.simulator.kraken.instrument import DAY_MS, Instrument
from penstock.simulator.kraken.rest import MINUTE_MS, candles, order_type
from penstock.simulator.kraken.spelling import exact, rounded
from penstock.simulator.market.book import Book
from penstock.simulator.market.market import Sums, Trade

HEARTBEAT = b'{"channel":"heartbeat"}'
HEARTBEAT_MS = 1000
TRADES_SHOWN, CANDLES_SHOWN = 50, 10
"""Rows in the snapshots of their channels."""

AtTrades = Callable[[int, list[Trade]], bytes]
"""The frame for the trades of one time."""


def heartbeat(name: str) -> StreamFeed:
    """``heartbeat``: once a second, regardless of other frames."""
    return StreamFeed(name, every(HEARTBEAT_MS, lambda _: HEARTBEAT))


def instruments(name: str, listed: Sequence[Instrument], snapshot: bool) -> StreamFeed:
    """``instrument``: a snapshot without updates, since pairs never change."""

    def opening(at_ms: int) -> list[bytes]:
        return [info.instruments([each for each in listed if each.listed_at_ms <= at_ms])]

    return StreamFeed(name, lambda *_: [], opening if snapshot else None)


def trades(name: str, instrument: Instrument, snapshot: bool) -> StreamFeed:
    """``trade``."""
    market = instrument.market

    def opening(at_ms: int) -> list[bytes]:
        end = market.id_at(at_ms + 1)
        first = max(1, end - TRADES_SHOWN)
        return [_trades(instrument, "snapshot", market.trades(first, end - first))]

    def update(_at_ms: int, traded: list[Trade]) -> bytes:
        return _trades(instrument, "update", traded)

    return StreamFeed(name, _on_trades(instrument, update), opening if snapshot else None)


def ticker(name: str, instrument: Instrument, snapshot: bool) -> StreamFeed:
    """``ticker`` of either trigger: in the simulator only trades change the best bid and ask."""

    def opening(at_ms: int) -> list[bytes]:
        return [_ticker(instrument, "snapshot", at_ms)]

    def update(at_ms: int, _traded: list[Trade]) -> bytes:
        return _ticker(instrument, "update", at_ms)

    return StreamFeed(name, _on_trades(instrument, update), opening if snapshot else None)


def ohlc(name: str, instrument: Instrument, minutes: int, snapshot: bool) -> StreamFeed:
    """``ohlc``: the current candle whenever it changes, without a flag when it is finished."""
    step_ms = minutes * MINUTE_MS

    def opening(at_ms: int) -> list[bytes]:
        numbers, sums = candles(instrument, step_ms, CANDLES_SHOWN, at_ms)
        rows = [
            _candle(instrument, number, minutes, each)
            for number, each in zip(numbers, sums, strict=True)
        ]
        return [_candles("snapshot", at_ms, rows)]

    def update(at_ms: int, _traded: list[Trade]) -> bytes:
        number = at_ms // step_ms
        start_ms = max(number * step_ms, instrument.listed_at_ms)
        sums = instrument.market.sums(start_ms, at_ms + 1)
        return _candles("update", at_ms, [_candle(instrument, number, minutes, sums)])

    return StreamFeed(name, _on_trades(instrument, update), opening if snapshot else None)


def book(name: str, instrument: Instrument, depth: int, snapshot: bool) -> StreamFeed:
    """``book``: the changed levels among the best, with the checksum of the ten best."""
    levels, cut = instrument.spelling.levels, Depth(instrument.book, depth)

    def frame(kind: str, slot: int, bids: str, asks: str) -> bytes:
        timestamp = times.iso(times.reported_us((slot + 1) * Book.SLOT_MS))
        summed = checksum(*cut.after(slot), instrument.spelling.lot)
        return (
            f'{{"channel":"book","type":"{kind}","data":[{{"symbol":"{instrument.symbol}",'
            f'"bids":{bids},"asks":{asks},"checksum":{summed},"timestamp":"{timestamp}"}}]}}'
        ).encode()

    def opening(at_ms: int) -> list[bytes]:
        slot = cut.event(at_ms // Book.SLOT_MS - 1)
        return [frame("snapshot", slot, *map(levels, cut.after(slot)))]

    def frames(after_ms: int, upto_ms: int) -> list[bytes]:
        updates = []
        for slot in range(after_ms // Book.SLOT_MS, upto_ms // Book.SLOT_MS):
            changes = cut.changes(slot)
            if changes is not None:
                updates.append(frame("update", slot, *map(levels, changes)))
        return updates

    return StreamFeed(name, frames, opening if snapshot else None)


def _on_trades(instrument: Instrument, update: AtTrades) -> Frames:
    due = DueTrades(instrument.market)

    def frames(after_ms: int, upto_ms: int) -> list[bytes]:
        grouped = groupby(due(after_ms, upto_ms), key=lambda trade: trade.at_ms)
        return [update(at_ms, list(traded)) for at_ms, traded in grouped]

    return frames


def _trades(instrument: Instrument, kind: str, traded: list[Trade]) -> bytes:
    price, quantity = instrument.spelling.price, instrument.spelling.quantity
    rows = [
        f'{{"symbol":"{instrument.symbol}","side":"{"buy" if each.taker_buys else "sell"}",'
        f'"price":{price(each.price)},"qty":{quantity(each.quantity)},'
        f'"ord_type":"{order_type(each)}","trade_id":{each.id},'
        f'"timestamp":"{times.iso(at_ns // 1000)}"}}'
        for each, at_ns in zip(traded, times.trade_times(instrument.market, traded), strict=True)
    ]
    return f'{{"channel":"trade","type":"{kind}","data":[{",".join(rows)}]}}'.encode()


def _ticker(instrument: Instrument, kind: str, at_ms: int) -> bytes:
    spelling, price = instrument.spelling, instrument.spelling.price
    start_ms = max(at_ms + 1 - DAY_MS, instrument.listed_at_ms)
    day = instrument.market.sums(start_ms, at_ms + 1)
    (bid, bid_lots), (ask, ask_lots) = instrument.touch(at_ms)
    change = day.close - day.open
    percent = rounded(abs(change) * 10_000, day.open) * (-1 if change < 0 else 1)
    return (
        f'{{"channel":"ticker","type":"{kind}","data":[{{"symbol":"{instrument.symbol}",'
        f'"bid":{price(bid)},"bid_qty":{spelling.quantity(bid_lots)},'
        f'"ask":{price(ask)},"ask_qty":{spelling.quantity(ask_lots)},'
        f'"last":{price(day.close)},"volume":{spelling.quantity(day.volume)},'
        f'"vwap":{price(spelling.average(day))},"low":{price(day.low)},"high":{price(day.high)},'
        f'"change":{price(change)},"change_pct":{exact(percent, 2)},'
        f'"timestamp":"{times.iso(times.reported_us(at_ms))}"}}]}}'
    ).encode()


def _candles(kind: str, at_ms: int, rows: list[str]) -> bytes:
    timestamp = times.iso(times.reported_us(at_ms))
    return (
        f'{{"channel":"ohlc","type":"{kind}","timestamp":"{timestamp}","data":[{",".join(rows)}]}}'
    ).encode()


def _candle(instrument: Instrument, number: int, minutes: int, sums: Sums) -> str:
    spelling, price = instrument.spelling, instrument.spelling.price
    step_ms = minutes * MINUTE_MS
    # The inner timestamp is the end of the interval.
    return (
        f'{{"symbol":"{instrument.symbol}","open":{price(sums.open)},"high":{price(sums.high)},'
        f'"low":{price(sums.low)},"close":{price(sums.close)},"trades":{sums.trades},'
        f'"volume":{spelling.quantity(sums.volume)},"vwap":{price(spelling.average(sums))},'
        f'"interval_begin":"{times.iso_nanosecond(number * step_ms)}","interval":{minutes},'
        f'"timestamp":"{times.iso((number + 1) * step_ms * 1000)}"}}'
    )
