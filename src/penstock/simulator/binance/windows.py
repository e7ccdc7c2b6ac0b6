"""Computes and formats statistics over a time window, for REST and for streams.

A window contains the trades from its open time to its close time, both included, so a ticker can be
recomputed from the trades whose ids it has. There are no trades before the listing.
"""

from typing import NamedTuple

from penstock.simulator.binance.instrument import Instrument
from penstock.simulator.binance.periods import DAY_MS, MINUTE_MS, Period
from penstock.simulator.market.market import Sums

AVERAGE_MINUTES = 5


class Window(NamedTuple):
    """A time window."""

    open_ms: int
    close_ms: int
    """The reported close time; it may be in the future, of which nothing is counted yet."""
    counted_to_ms: int
    is_calendar: bool = False
    """Whether the window ends at the end of its last ms, as candles do, and not at its start."""


class Statistics(NamedTuple):
    """The statistics of a window, in the exchange's format."""

    symbol: str
    change: str
    change_percent: str
    average: str
    open: str
    high: str
    low: str
    last: str
    volume: str
    quote_volume: str
    opens: str
    closes: str
    first_id: int
    last_id: int
    trades: int


class TickerQuotes(NamedTuple):
    """A ticker's other values: the trade before the window, the last trade, the touch."""

    before: str
    last_quantity: str
    bid: str
    bid_quantity: str
    ask: str
    ask_quantity: str


def day_up_to(as_of_ms: int) -> Window:
    """The last 24 hours, in exact ms."""
    return Window(as_of_ms - DAY_MS, as_of_ms, as_of_ms)


def rolling_up_to(as_of_ms: int, length_ms: int) -> Window:
    """A window that opens at a whole minute, so up to 59,999 ms longer than requested."""
    open_ms = as_of_ms - length_ms
    return Window(open_ms - open_ms % MINUTE_MS, as_of_ms, as_of_ms)


def trading_day(as_of_ms: int, zone_ms: int) -> Window:
    """The calendar day of a time zone."""
    period = Period("1d", zone_ms)
    number = period.number(as_of_ms)
    close_ms = period.open_ms(number + 1) - 1
    return Window(period.open_ms(number), close_ms, as_of_ms, is_calendar=True)


def statistics(instrument: Instrument, window: Window) -> Statistics:
    """The statistics of a window."""
    sums, spelling = sums_of(instrument, window), instrument.spelling
    close = spelling.last_time if window.is_calendar else spelling.time
    return Statistics(
        symbol=instrument.symbol,
        change=spelling.price(sums.close - sums.open),
        change_percent=_percent(sums.close - sums.open, sums.open),
        average=spelling.average(sums.quote, sums.volume),
        open=spelling.price(sums.open),
        high=spelling.price(sums.high),
        low=spelling.price(sums.low),
        last=spelling.price(sums.close),
        volume=spelling.quantity(sums.volume),
        quote_volume=spelling.amount(sums.quote),
        opens=spelling.time(window.open_ms),
        closes=close(window.close_ms),
        first_id=sums.first_id,
        last_id=sums.last_id,
        trades=sums.trades,
    )


def sums_of(instrument: Instrument, window: Window) -> Sums:
    """The sums of a window's trades."""
    start_ms = max(window.open_ms, instrument.listed_at_ms)
    return instrument.market.sums(start_ms, window.counted_to_ms + 1)


def ticker_quotes(instrument: Instrument, window: Window) -> TickerQuotes:
    """A ticker's values besides those of its window."""
    spelling = instrument.spelling
    before = instrument.market.last_before(window.open_ms)
    last = instrument.market.last_before(window.counted_to_ms + 1)
    _, bids, asks = instrument.book.snapshot(window.counted_to_ms, 1)
    (bid, bid_quantity), (ask, ask_quantity) = bids[0], asks[0]
    return TickerQuotes(
        # Before the first trade the market returns one with id 0; the exchange reports none.
        before=spelling.price(before.price if before.id else 0),
        last_quantity=spelling.quantity(last.quantity),
        bid=spelling.price(bid),
        bid_quantity=spelling.quantity(bid_quantity),
        ask=spelling.price(ask),
        ask_quantity=spelling.quantity(ask_quantity),
    )


def last_price(instrument: Instrument, as_of_ms: int) -> str:
    """The price of the last trade, or the price at listing if there is none."""
    return instrument.spelling.price(instrument.market.last_before(as_of_ms + 1).price)


def average_price(instrument: Instrument, as_of_ms: int) -> tuple[str, str]:
    """The average price of the last five minutes, and the time of the last trade.

    Without trades in those minutes it is the last price.
    """
    window = Window(as_of_ms - AVERAGE_MINUTES * MINUTE_MS + 1, as_of_ms, as_of_ms)
    sums = sums_of(instrument, window)
    last, spelling = instrument.market.last_before(as_of_ms + 1), instrument.spelling
    if not sums.volume:
        return spelling.price(last.price), spelling.time(last.at_ms)
    return spelling.average(sums.quote, sums.volume), spelling.time(last.at_ms)


def _percent(change: int, base: int) -> str:
    """``change`` of ``base`` in per cent with three decimals, halves away from zero."""
    thousandths = (2 * abs(change) * 100_000 + base) // (2 * base)
    whole, part = divmod(thousandths, 1000)
    return f"{'-' if change < 0 and thousandths else ''}{whole}.{part:03}"
