"""Computes which candles an exchange can provide, from its definition. Pure."""

from datetime import UTC, datetime

from penstock.exchanges.base import Exchange
from penstock.market.events import Candle
from penstock.market.interval import DAY_MS, Interval

_MONTH_MS = 365 * DAY_MS // 12


def length_ms(interval: Interval) -> int:
    """The length of a candle; for months, the average."""
    return interval.fixed_ms or interval.count * _MONTH_MS


def iso(at_ms: int) -> str:
    """A time in ISO format, to the second."""
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def kept_from_ms(exchange: Exchange, interval: Interval, now_ms: int) -> int:
    """The open time of the oldest candle that the exchange still keeps; 0 if it keeps all."""
    kept_ms = 0
    if exchange.latest_candles is not None and interval.fixed_ms is not None:
        kept_ms = interval.open_of(now_ms) - exchange.latest_candles * interval.fixed_ms
    if (days := exchange.candle_days.get(interval.text)) is not None:
        kept_ms = max(kept_ms, interval.next_open(interval.open_of(now_ms - days * DAY_MS)))
    return max(0, kept_ms)


def first_open(interval: Interval, start_ms: int) -> int:
    """The open time of the first candle at or after ``start_ms``."""
    open_ms = interval.open_of(start_ms)
    return open_ms if open_ms == start_ms else interval.next_open(open_ms)


def span_end(interval: Interval, start_ms: int, span: int) -> int:
    """The end of a page that covers ``span`` intervals from ``start_ms``."""
    end_ms = first_open(interval, start_ms)
    for _ in range(span):
        end_ms = interval.next_open(end_ms)
    return end_ms


def complete_until(
    exchange: Exchange, interval: Interval, asked: tuple[int, int], page: list[Candle]
) -> int:
    """The time up to which a page requested for [start, end) has every candle that exists."""
    start_ms, end_ms = asked
    if exchange.candle_span is not None:
        return min(end_ms, span_end(interval, start_ms, exchange.candle_span))
    return interval.next_open(page[-1].open_ms) if page else end_ms


def intervals_per_page(exchange: Exchange) -> int | None:
    """How many intervals a page covers; None where pages cannot begin at any time of the past."""
    if exchange.latest_candles is not None:
        return None
    if exchange.candle_span is not None:
        return exchange.candle_span
    sizes = (each.costs[-1].rows for each in exchange.paged if each.channel == "candles")
    return next(sizes, None)


def longest(exchange: Exchange) -> Interval:
    """The longest interval of an exchange: its pages cover the longest time."""
    return max(map(Interval.parse, exchange.intervals), key=lambda each: each.next_open(0))
