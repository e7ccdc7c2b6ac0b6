"""The cost of each public request at Binance, from its parameters alone.

Weights of the documentation of July 2026:
https://developers.binance.com/docs/binance-spot-api-docs/rest-api/market-data-endpoints
An invalid parameter costs as much as an absent one; the exchange rejects it after the charge.
"""

from collections.abc import Sequence

PING = TIME = 1
EXCHANGE_INFO = 20
TRADES = HISTORICAL_TRADES = 25
AGG_TRADES = 4
KLINES = AVG_PRICE = 2

# (number of levels up to which it applies, weight)
_DEPTH = ((100, 5), (500, 25), (1000, 50))
_DEEPEST = 250
_DAY_SYMBOLS = ((20, 2), (100, 40))
_DAY_ALL = 80
_PER_WINDOW, _MOST_FOR_WINDOWS = 4, 200


def depth(limit: object) -> int:
    """The cost of a book, by its number of levels; 100 if none is given."""
    text = str(limit)
    levels = int(text) if text.isascii() and text.isdecimal() else 100
    return _step(_DEPTH, levels, _DEEPEST)


def day(symbol: str | None, symbols: Sequence[str] | None) -> int:
    """The cost of 24-hour statistics: of one market, of several, of all."""
    if symbol is not None:
        return _DAY_SYMBOLS[0][1]
    return _DAY_ALL if symbols is None else _step(_DAY_SYMBOLS, len(symbols), _DAY_ALL)


def windows(symbol: str | None, symbols: Sequence[str] | None) -> int:
    """The cost of statistics of another window: an amount per market, up to a maximum."""
    count = len(symbols) if symbol is None and symbols else 1
    return min(_PER_WINDOW * count, _MOST_FOR_WINDOWS)


def last(symbol: str | None) -> int:
    """The cost of the last price or the best quotes: of one market, or of several."""
    return 4 if symbol is None else 2


def _step(steps: Sequence[tuple[int, int]], count: int, beyond: int) -> int:
    return next((cost for most, cost in steps if count <= most), beyond)
