"""Computes and formats statistics of the last day and the last 30 days, for REST and streams."""

from typing import NamedTuple

from penstock.simulator.coinbase.product import Product

DAY_MS = 86_400_000
_MONTH_DAYS = 30


class Statistics(NamedTuple):
    """Statistics of a product's last 24 hours, up to and including a time."""

    open: str
    high: str
    low: str
    last: str
    volume: str
    month_volume: str


def statistics(product: Product, at_ms: int) -> Statistics:
    """The statistics of the 24 hours and the 30 days up to a time, from the listing on."""
    market, spelling = product.market, product.spelling
    day = market.sums(max(at_ms + 1 - DAY_MS, product.listed_at_ms), at_ms + 1)
    month_ms = max(at_ms + 1 - _MONTH_DAYS * DAY_MS, product.listed_at_ms)
    month = market.sums(month_ms, at_ms + 1)
    return Statistics(
        open=spelling.bare_price(day.open),
        high=spelling.bare_price(day.high),
        low=spelling.bare_price(day.low),
        last=spelling.bare_price(day.close),
        volume=spelling.volume(day.volume),
        month_volume=spelling.volume(month.volume),
    )
