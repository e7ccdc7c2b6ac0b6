"""Implements ``candles``.

A range needs both start and end, or it is ignored. It selects the candles that open within it, both
ends included, and the one that contains its start if the page has room. Without a range the latest
candles are returned. Intervals without trades have no candle. The latest candle comes first.
"""

import re
from datetime import UTC, datetime, timedelta

from penstock.simulator.coinbase import refusals
from penstock.simulator.coinbase.product import Product
from penstock.simulator.engine.exchange import Query

MOST_CANDLES = 300
GRANULARITIES = ("60", "300", "900", "3600", "21600", "86400")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS = re.compile(r"[0-9]{1,11}")


def candles(product: Product, query: Query, as_of_ms: int) -> bytes:
    """The body of ``candles``."""
    if query.get("granularity") not in GRANULARITIES:
        raise refusals.bad_granularity()
    step_ms = int(query["granularity"]) * 1000
    numbers = _numbers(query, step_ms, as_of_ms)
    first = max(numbers.start, product.listed_at_ms // step_ms)
    end = min(numbers.stop, as_of_ms // step_ms + 1)
    rows = _rows(product, range(first, end), step_ms, as_of_ms)
    return f"[{','.join(rows)}]".encode()


def instant_ms(name: str, text: str) -> int:
    """Parse a time in ISO 8601, by default UTC, or in seconds since the epoch."""
    if _SECONDS.fullmatch(text):
        return int(text) * 1000
    try:
        at = datetime.fromisoformat(text)
        return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise refusals.invalid(name) from None


def _numbers(query: Query, step_ms: int, as_of_ms: int) -> range:
    """The numbers of the requested candles: their open times in steps since the epoch."""
    start, end = query.get("start"), query.get("end")
    if not start or not end:
        latest = as_of_ms // step_ms
        return range(latest - MOST_CANDLES + 1, latest + 1)
    start_ms, end_ms = instant_ms("start", start), instant_ms("end", end)
    if start_ms > end_ms:
        raise refusals.backwards()
    latest = end_ms // step_ms
    if latest - -(-start_ms // step_ms) + 1 > MOST_CANDLES:
        raise refusals.too_many_candles(MOST_CANDLES)
    return range(max(start_ms // step_ms, latest - MOST_CANDLES + 1), latest + 1)


def _rows(product: Product, numbers: range, step_ms: int, as_of_ms: int) -> list[str]:
    if not numbers:
        return []
    borders = [number * step_ms for number in range(numbers.start, numbers.stop + 1)]
    if borders[-1] <= as_of_ms + 1:
        sums = product.market.candles(borders)
    else:
        running = product.market.sums(borders[-2], as_of_ms + 1)
        sums = [*product.market.candles(borders[:-1]), running]
    rows = zip(borders, sums, strict=False)
    return [product.spelling.candle(at_ms, each) for at_ms, each in rows if each.trades][::-1]
