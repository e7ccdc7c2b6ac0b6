"""Binance's limits, built in with their dates and replaced by those that the exchange announces.

``exchangeInfo.rateLimits`` has the current limits and replaces the table as soon as it is read:

    [{"rateLimitType":"REQUEST_WEIGHT","interval":"MINUTE","intervalNum":1,"limit":6000},
     {"rateLimitType":"ORDERS","interval":"SECOND","intervalNum":10,"limit":100},
     {"rateLimitType":"RAW_REQUESTS","interval":"MINUTE","intervalNum":5,"limit":61000}]

Weight and requests are counted per address, in windows aligned to whole units of the exchange's
clock.
"""

import re
from collections.abc import Mapping

from msgspec import Struct, field

from penstock.exchanges.base import Usage
from penstock.market.interval import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from penstock.streaming.dialect import StreamLimits
from penstock.throttle.gate import Limit, Unit

_UNITS_MS = {"SECOND": SECOND_MS, "MINUTE": MINUTE_MS, "HOUR": HOUR_MS, "DAY": DAY_MS}
_LETTERS_MS = {name[0].lower(): length_ms for name, length_ms in _UNITS_MS.items()}
_BAN_END = re.compile(r"banned until ([0-9]{10,16})")
# x-mbx-used-weight-1m: 25
_USED_WEIGHT = re.compile(r"x-mbx-used-weight-([1-9][0-9]{0,5})([smhd])")
_COUNTED: dict[str, Unit] = {"REQUEST_WEIGHT": "weight", "RAW_REQUESTS": "request"}

LIMITS_FROM = {
    0: (Limit(1200, MINUTE_MS), Limit(6100, 5 * MINUTE_MS, "request")),
    # 2023-08-25
    1_692_921_600_000: (Limit(6000, MINUTE_MS), Limit(61_000, 5 * MINUTE_MS, "request")),
}

# Weights of requests, by the documentation of July 2026:
# https://developers.binance.com/docs/binance-spot-api-docs/rest-api/market-data-endpoints
TIME_COST, INFO_COST, TRADES_COST, AGG_TRADES_COST, CANDLES_COST = 1, 20, 25, 4, 2
BOOK_COSTS, DEEPEST_BOOK_COST = ((100, 5), (500, 25), (1000, 50)), 250
"""(most levels, weight), and the weight of more."""
TICKER_COSTS, ALL_TICKERS_COST = ((20, 2), (100, 40)), 80
"""The same by the number of markets."""


class RateLimit(Struct, frozen=True):
    """An entry of ``exchangeInfo.rateLimits``."""

    kind: str = field(name="rateLimitType")
    interval: str
    count: int = field(name="intervalNum")
    limit: int


def announced(entries: list[RateLimit]) -> tuple[Limit, ...]:
    """The limits that count penstock's requests; limits on orders do not."""
    return tuple(
        Limit(entry.limit, entry.count * _UNITS_MS[entry.interval], _COUNTED[entry.kind])
        for entry in entries
        if entry.kind in _COUNTED and entry.interval in _UNITS_MS and entry.count > 0
    )


def usages(headers: Mapping[str, str]) -> list[Usage]:
    """The used weight in a response's headers: ``X-MBX-USED-WEIGHT-(number)(letter): 25``."""
    found = []
    for name, value in headers.items():
        match = _USED_WEIGHT.fullmatch(name)
        if match is not None and value.isascii() and value.isdecimal():
            window_ms = int(match[1]) * _LETTERS_MS[match[2]]
            found.append(Usage("", int(value), window_ms))
    return found


def ban_end_ms(words: str) -> int | None:
    """When a ban ends: "Way too much request weight used; IP banned until 1573474564000. …"."""
    end = _BAN_END.search(words)
    return int(end[1]) if end else None


STREAM_LIMITS = StreamLimits(
    streams_per_connection=1024,
    # No maximum is documented; messages of some kilobytes are rejected, so they are kept short.
    names_per_message=100,
    messages_per_second=5,
    connects=300,
    connects_period_s=300,
    lifetime_s=86_400,
    heartbeat_s=20,
)
