"""Computes the frames of streams that are due in a time range, as pure functions of time.

The functions keep no position: any range may be requested, repeatedly or out of order, and gives
the same frames. A range without frames costs almost nothing (see ``pacing``).

Periodic frames (of a 100 ms slot, a second) are due at the end of the period; frames of market
events (a trade, a change of the touch) at the time of the event. That is also their event time.
"""

from collections.abc import Sequence

from penstock.simulator.binance import windows
from penstock.simulator.binance.instrument import Instrument
from penstock.simulator.binance.periods import SECOND_MS, Period
from penstock.simulator.binance.windows import Statistics
from penstock.simulator.engine.pacing import DueTrades, Frames, IdleSpan, every
from penstock.simulator.market.book import Book
from penstock.simulator.market.market import Sums


def trades(instrument: Instrument) -> Frames:
    """``@trade``."""
    due, spell = DueTrades(instrument.market), instrument.spelling.trade_frame

    def frames(after_ms: int, upto_ms: int) -> list[bytes]:
        return [spell(trade) for trade in due(after_ms, upto_ms)]

    return frames


def agg_trades(instrument: Instrument) -> Frames:
    """``@aggTrade``: the trades of a group have the same time, so a due group is complete."""
    market, spell, idle = instrument.market, instrument.spelling.agg_trade_frame, IdleSpan()

    def frames(after_ms: int, upto_ms: int) -> list[bytes]:
        if idle.covers(after_ms, upto_ms):
            return []
        first, end = market.agg_id_at(after_ms + 1), market.agg_id_at(upto_ms + 1)
        *due, following = market.agg_trades(first, end - first + 1)
        idle.learn(upto_ms, following.at_ms)
        return [spell(group) for group in due]

    return frames


def touches(instrument: Instrument) -> Frames:
    """``@bookTicker``: every change of the best bid or ask. Only trades change them."""
    market, book, spell = instrument.market, instrument.book, instrument.spelling.touch_frame
    idle = IdleSpan()

    def frames(after_ms: int, upto_ms: int) -> list[bytes]:
        if idle.covers(after_ms, upto_ms):
            return []
        (following,) = market.trades(market.id_at(upto_ms + 1), 1)
        idle.learn(upto_ms, following.at_ms)
        return [
            spell(update_id, (bid, bid_quantity), (ask, ask_quantity))
            for update_id, bid, bid_quantity, ask, ask_quantity in book.touches(after_ms, upto_ms)
        ]

    return frames


def depth(instrument: Instrument, every_ms: int) -> Frames:
    """``@depth`` and ``@depth@100ms``: the changes of the book; no frame if there are none."""
    book, symbol, levels = instrument.book, instrument.symbol, instrument.spelling.levels
    time = instrument.spelling.time
    slots = every_ms // Book.SLOT_MS

    def at(due_ms: int) -> bytes | None:
        last_slot = due_ms // Book.SLOT_MS - 1
        delta = book.delta(last_slot - slots, last_slot)
        if delta is None:
            return None
        return (
            f'{{"e":"depthUpdate","E":{time(due_ms)},"s":"{symbol}","U":{delta.first_update_id},'
            f'"u":{delta.final_update_id},"b":{levels(delta.bids)},"a":{levels(delta.asks)}}}'
        ).encode()

    return every(every_ms, at, instrument.listed_at_ms)


def top(instrument: Instrument, count: int, every_ms: int) -> Frames:
    """``@depth5``, ``10`` and ``20``: the best levels, if the book has changed."""
    book, levels = instrument.book, instrument.spelling.levels
    slots = every_ms // Book.SLOT_MS

    def at(due_ms: int) -> bytes | None:
        last_slot = due_ms // Book.SLOT_MS - 1
        update_id = book.update_id(last_slot)
        if update_id == book.update_id(last_slot - slots):
            return None
        bids, asks = book.at(update_id, count)
        return (
            f'{{"lastUpdateId":{update_id},"bids":{levels(bids)},"asks":{levels(asks)}}}'
        ).encode()

    return every(every_ms, at, instrument.listed_at_ms)


def candles(instrument: Instrument, period: Period) -> Frames:
    """``@kline_<interval>``: the current candle if it has changed, and every candle as it closes.

    A frame covers the trades before its event time. A candle that closes at that time is complete
    and sent for the last time.
    """
    market, symbol = instrument.market, instrument.symbol
    time, last_time = instrument.spelling.time, instrument.spelling.last_time
    every_ms = SECOND_MS if period.interval == "1s" else 2 * SECOND_MS

    def at(due_ms: int) -> bytes | None:
        number = period.number(due_ms - 1)
        open_ms, end_ms = period.open_ms(number), period.open_ms(number + 1)
        is_closed = end_ms == due_ms
        if not is_closed and market.id_at(due_ms - every_ms) == market.id_at(due_ms):
            return None
        sums = market.sums(max(open_ms, instrument.listed_at_ms), due_ms)
        times = f'"t":{time(open_ms)},"T":{last_time(end_ms - 1)}'
        return (
            f'{{"e":"kline","E":{time(due_ms)},"s":"{symbol}","k":{{{times},"s":"{symbol}",'
            f'"i":"{period.interval}",{_candle(instrument, sums, is_closed)}}}}}'
        ).encode()

    return every(every_ms, at, instrument.listed_at_ms)


def day_ticker(instrument: Instrument) -> Frames:
    """``@ticker``."""

    def at(due_ms: int) -> bytes:
        window = windows.day_up_to(due_ms)
        counted = windows.statistics(instrument, window)
        quotes = windows.ticker_quotes(instrument, window)
        return (
            f'{{"e":"24hrTicker","E":{instrument.spelling.time(due_ms)},'
            f'"s":"{instrument.symbol}","p":"{counted.change}",'
            f'"P":"{counted.change_percent}","w":"{counted.average}","x":"{quotes.before}",'
            f'"c":"{counted.last}","Q":"{quotes.last_quantity}","b":"{quotes.bid}",'
            f'"B":"{quotes.bid_quantity}","a":"{quotes.ask}","A":"{quotes.ask_quantity}",'
            f"{_prices(counted)},{_totals(counted)}}}"
        ).encode()

    return every(SECOND_MS, at, instrument.listed_at_ms)


def rolling_ticker(instrument: Instrument, size: str, length_ms: int) -> Frames:
    """``@ticker_1h``, ``4h`` and ``1d``."""

    def at(due_ms: int) -> bytes:
        counted = windows.statistics(instrument, windows.rolling_up_to(due_ms, length_ms))
        return (
            f'{{"e":"{size}Ticker","E":{instrument.spelling.time(due_ms)},'
            f'"s":"{instrument.symbol}","p":"{counted.change}",'
            f'"P":"{counted.change_percent}",{_prices(counted)},"c":"{counted.last}",'
            f'"w":"{counted.average}",{_totals(counted)}}}'
        ).encode()

    return every(SECOND_MS, at, instrument.listed_at_ms)


def mini_ticker(instrument: Instrument) -> Frames:
    """``@miniTicker``."""

    def at(due_ms: int) -> bytes:
        return _mini(instrument, due_ms)

    return every(SECOND_MS, at, instrument.listed_at_ms)


def mini_tickers(instruments: Sequence[Instrument]) -> Frames:
    """``!miniTicker@arr``: the symbols with trades since the last frame."""

    def at(due_ms: int) -> bytes | None:
        since_ms = due_ms - SECOND_MS + 1
        changed = [
            _mini(each, due_ms)
            for each in instruments
            if each.market.id_at(since_ms) < each.market.id_at(due_ms + 1)
        ]
        return b"[%b]" % b",".join(changed) if changed else None

    return every(SECOND_MS, at)


def average_price(instrument: Instrument) -> Frames:
    """``@avgPrice``."""

    def at(due_ms: int) -> bytes:
        price, last = windows.average_price(instrument, due_ms)
        return (
            f'{{"e":"avgPrice","E":{instrument.spelling.time(due_ms)},"s":"{instrument.symbol}",'
            f'"i":"{windows.AVERAGE_MINUTES}m","w":"{price}","T":{last}}}'
        ).encode()

    return every(SECOND_MS, at, instrument.listed_at_ms)


def _candle(instrument: Instrument, sums: Sums, is_closed: bool) -> str:
    spelling = instrument.spelling
    price, quantity, amount = spelling.price, spelling.quantity, spelling.amount
    return (
        f'"f":{sums.first_id},"L":{sums.last_id},"o":"{price(sums.open)}",'
        f'"c":"{price(sums.close)}","h":"{price(sums.high)}","l":"{price(sums.low)}",'
        f'"v":"{quantity(sums.volume)}","n":{sums.trades},"x":{"true" if is_closed else "false"},'
        f'"q":"{amount(sums.quote)}","V":"{quantity(sums.taker_volume)}",'
        f'"Q":"{amount(sums.taker_quote)}","B":"0"'
    )


def _mini(instrument: Instrument, due_ms: int) -> bytes:
    counted = windows.statistics(instrument, windows.day_up_to(due_ms))
    return (
        f'{{"e":"24hrMiniTicker","E":{instrument.spelling.time(due_ms)},'
        f'"s":"{instrument.symbol}","c":"{counted.last}",'
        f"{_prices(counted)},{_volumes(counted)}}}"
    ).encode()


def _prices(counted: Statistics) -> str:
    return f'"o":"{counted.open}","h":"{counted.high}","l":"{counted.low}"'


def _volumes(counted: Statistics) -> str:
    return f'"v":"{counted.volume}","q":"{counted.quote_volume}"'


def _totals(counted: Statistics) -> str:
    return (
        f'{_volumes(counted)},"O":{counted.opens},"C":{counted.closes},'
        f'"F":{counted.first_id},"L":{counted.last_id},"n":{counted.trades}'
    )
