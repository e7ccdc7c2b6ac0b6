"""Computes and formats Kraken's times, which are more precise than the market's.

The market has millisecond times and several trades in one millisecond. Kraken's pages are delimited
by time alone, so every trade needs a unique time. Trades of one millisecond are one microsecond
apart, from a pseudo-random offset on; the nanoseconds are pseudo-random too. Truncated to
milliseconds, each time is the market's.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache

from penstock.simulator.market.market import Market, Trade
from penstock.simulator.market.rng import key, mix

MOST_AT_ONCE = 400
"""The largest number of trades in a millisecond."""
_PLACES_US = 599
MS_NS = 1_000_000
_KEY = key("instants")


def trade_times(market: Market, trades: Iterable[Trade]) -> Iterator[int]:
    """The times of consecutive trades, in nanoseconds."""
    at_ms, first_id = -1, 0
    for trade in trades:
        if trade.at_ms != at_ms:
            # Only before the first may there be other trades of its millisecond.
            first_id = market.id_at(trade.at_ms) if at_ms < 0 else trade.id
            at_ms = trade.at_ms
        offset_us = within_ms(at_ms) + trade.id - first_id
        yield at_ms * MS_NS + offset_us * 1000 + 100 + mix(_KEY + trade.id) % 900


def within_ms(at_ms: int) -> int:
    """A pseudo-random offset in a millisecond, in microseconds; never 0.

    A client that parses a time as a binary float may lose a fraction of a microsecond, which must
    not move the time into the previous millisecond.
    """
    return 1 + mix(_KEY ^ at_ms) % _PLACES_US


def first_after(market: Market, since_ns: int) -> int:
    """The id of the first trade after a time."""
    since_ms = since_ns // MS_NS
    if since_ms < market.listing.listed_at_ms:
        return 1
    first, end = market.id_at(since_ms), market.id_at(since_ms + 1)
    times = trade_times(market, market.trades(first, end - first))
    return first + sum(at_ns <= since_ns for at_ns in times)


def reported_us(at_ms: int) -> int:
    """The reported time of an event in a millisecond, in microseconds."""
    return at_ms * 1000 + within_ms(at_ms)


def iso(at_us: int) -> str:
    """``2026-08-16T23:37:04.849274Z``."""
    seconds, fraction_us = divmod(at_us, 1_000_000)
    return f"{_iso_second(seconds)}.{fraction_us:06}Z"


def iso_second(at_ms: int) -> str:
    """``2025-11-11T00:17:10Z``."""
    return f"{_iso_second(at_ms // 1000)}Z"


def iso_nanosecond(at_ms: int) -> str:
    """``2023-10-04T16:25:00.000000000Z``."""
    return f"{_iso_second(at_ms // 1000)}.{at_ms % 1000:03}000000Z"


def rfc1123(at_ms: int) -> str:
    """``Tue, 11 Nov 25 00:17:04 +0000``."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%a, %d %b %y %H:%M:%S +0000")


@lru_cache(maxsize=64)
def _iso_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
