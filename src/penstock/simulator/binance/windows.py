"""Statistics over a stretch of time, spelled once for REST and for the streams.

A window holds the trades from its opening to its closing instant, both included, so what a ticker
says can be recounted from the trades it names. Before the listing there is nothing to count.
"""

from typing import NamedTuple

from penstock.simulator.binance.instrument import Instrument
from penstock.simulator.binance.periods import DAY_MS, MINUTE_MS, Period
from penstock.simulator.market.market import Sums

AVERAGE_MINUTES = 5


class Window(NamedTuple):
    """A stretch of time."""

    open_ms: int
    close_ms: int
    """As announced; may lie in the future, where nothing is counted yet."""
    counted_to_ms: int
    is_calendar: bool = False
    """Whether it closes with the whole of its last ms, as candles do, and not as that begins."""


class Statistics(NamedTuple):
    """What was traded in a window, in the exchange's spelling."""

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
    """What a ticker shows beside its window: the trade before it, the last one, the touch."""

    before: str
    last_quantity: str
    bid: str
    bid_quantity: str
    ask: str
    ask_quantity: str


def day_up_to(as_of_ms: int) -> Window:
    """The last 24 hours, to the ms."""
    return Window(as_of_ms - DAY_MS, as_of_ms, as_of_ms)


def rolling_up_to(as_of_ms: int, length_ms: int) -> Window:
    """A window that opens on a whole minute, and so may be up to 59,999 ms longer than asked."""
    open_ms = as_of_ms - length_ms
    return Window(open_ms - open_ms % MINUTE_MS, as_of_ms, as_of_ms)


def trading_day(as_of_ms: int, zone_ms: int) -> Window:
    """The calendar day of a time zone."""
    period = Period("1d", zone_ms)
    number = period.number(as_of_ms)
    close_ms = period.open_ms(number + 1) - 1
    return Window(period.open_ms(number), close_ms, as_of_ms, is_calendar=True)


def statistics(instrument: Instrument, window: Window) -> Statistics:
    """Count a window."""
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
    """What was traded in a window."""
    start_ms = max(window.open_ms, instrument.listed_at_ms)
    return instrument.market.sums(start_ms, window.counted_to_ms + 1)


def ticker_quotes(instrument: Instrument, window: Window) -> TickerQuotes:
    """What stands beside a window."""
    spelling = instrument.spelling
    before = instrument.market.last_before(window.open_ms)
    last = instrument.market.last_before(window.counted_to_ms + 1)
    _, bids, asks = instrument.book.snapshot(window.counted_to_ms, 1)
    (bid, bid_quantity), (ask, ask_quantity) = bids[0], asks[0]
    return TickerQuotes(
        # The market puts one of id 0 before the first trade; for the exchange there is none.
        before=spelling.price(before.price if before.id else 0),
        last_quantity=spelling.quantity(last.quantity),
        bid=spelling.price(bid),
        bid_quantity=spelling.quantity(bid_quantity),
        ask=spelling.price(ask),
        ask_quantity=spelling.quantity(ask_quantity),
    )


def last_price(instrument: Instrument, as_of_ms: int) -> str:
    """The price of the last trade, or the price at listing while there is none."""
    return instrument.spelling.price(instrument.market.last_before(as_of_ms + 1).price)


def average_price(instrument: Instrument, as_of_ms: int) -> tuple[str, str]:
    """The average price of the last five minutes, and when the last trade was.

    Without a trade in those minutes it is the last price.
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
