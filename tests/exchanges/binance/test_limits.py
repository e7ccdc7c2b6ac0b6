"""Binance's limits: dated where known, announced where asked, told by every answer."""

from penstock.exchanges.base import Usage
from penstock.exchanges.binance import EXCHANGE
from penstock.exchanges.binance.limits import RateLimit, announced, ban_end_ms, usages
from penstock.market.interval import MINUTE_MS
from penstock.throttle.gate import Limit


def test_the_limits_depend_on_the_day() -> None:
    assert EXCHANGE.limits(1_633_998_511_132)[0] == Limit(1200, MINUTE_MS)
    assert EXCHANGE.limits(1_763_000_000_000)[0] == Limit(6000, MINUTE_MS)
    assert EXCHANGE.limits(1_763_000_000_000)[1] == Limit(61_000, 5 * MINUTE_MS, "request")


def test_what_the_exchange_announces_is_kept_as_it_is() -> None:
    entries = [
        RateLimit("REQUEST_WEIGHT", "SECOND", 10, 300),
        RateLimit("ORDERS", "DAY", 1, 200_000),
        RateLimit("RAW_REQUESTS", "HOUR", 2, 61_000),
        RateLimit("REQUEST_WEIGHT", "FORTNIGHT", 1, 1),
    ]

    assert announced(entries) == (Limit(300, 10_000), Limit(61_000, 7_200_000, "request"))


def test_usage_is_read_from_every_window_a_header_names() -> None:
    headers = {
        "x-mbx-used-weight": "7",
        "x-mbx-used-weight-1m": "25",
        "x-mbx-used-weight-10s": "5",
        "x-mbx-used-weight-1d": "many",
        "x-mbx-order-count-1d": "3",
    }

    assert usages(headers) == [Usage("", 25, 60_000), Usage("", 5, 10_000)]


def test_a_ban_names_its_end() -> None:
    words = "Way too much request weight used; IP banned until 1573474564000. Please use"

    assert ban_end_ms(words) == 1_573_474_564_000
    assert ban_end_ms("Too much request weight used") is None
