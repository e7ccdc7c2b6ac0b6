"""The cost of each public request at Binance, from its parameters alone.

Costs that penstock's own requests have too are those of ``exchanges/binance/limits.py``. An invalid
parameter costs as much as an absent one; the exchange rejects it after the charge.
"""

from collections.abc import Sequence

from penstock.exchanges.binance.limits import (
    ALL_TICKERS_COST,
    BOOK_COSTS,
    DEEPEST_BOOK_COST,
    TICKER_COSTS,
)
from penstock.exchanges.paged import cost_of

PING = 1
AGG_TRADES = 4
AVG_PRICE = 2
_PER_WINDOW, _MOST_FOR_WINDOWS = 4, 200


def depth(limit: object) -> int:
    """The cost of a book, by its number of levels; 100 if none is given."""
    text = str(limit)
    levels = int(text) if text.isascii() and text.isdecimal() else 100
    return cost_of(BOOK_COSTS, levels, DEEPEST_BOOK_COST)


def day(symbol: str | None, symbols: Sequence[str] | None) -> int:
    """The cost of 24-hour statistics: of one market, of several, of all."""
    if symbol is not None:
        return TICKER_COSTS[0][1]
    if symbols is None:
        return ALL_TICKERS_COST
    return cost_of(TICKER_COSTS, len(symbols), ALL_TICKERS_COST)


def windows(symbol: str | None, symbols: Sequence[str] | None) -> int:
    """The cost of statistics of another window: an amount per market, up to a maximum."""
    count = len(symbols) if symbol is None and symbols else 1
    return min(_PER_WINDOW * count, _MOST_FOR_WINDOWS)


def last(symbol: str | None) -> int:
    """The cost of the last price or the best quotes: of one market, or of several."""
    return 4 if symbol is None else 2
