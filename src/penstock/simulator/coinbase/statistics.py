"""What was traded in the last day and the last thirty, spelled once for REST and the streams."""

from typing import NamedTuple

from penstock.simulator.coinbase.product import Product

DAY_MS = 86_400_000
_MONTH_DAYS = 30


class Statistics(NamedTuple):
    """A product's last day, up to an instant and with it."""

    open: str
    high: str
    low: str
    last: str
    volume: str
    month_volume: str


def statistics(product: Product, at_ms: int) -> Statistics:
    """Count the 24 hours and the 30 days up to an instant. Before the listing nothing is."""
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
