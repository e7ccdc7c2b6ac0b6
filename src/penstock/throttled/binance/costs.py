"""What each public request costs at Binance, from its parameters alone.

Weights of the documentation of July 2026:
https://developers.binance.com/docs/binance-spot-api-docs/rest-api/market-data-endpoints
A parameter the exchange will refuse costs what its absence would; it is refused after it is paid.
"""

from collections.abc import Sequence

PING = TIME = 1
EXCHANGE_INFO = 20
TRADES = HISTORICAL_TRADES = 25
AGG_TRADES = 4
KLINES = AVG_PRICE = 2

# Up to so many levels, so much weight.
_DEPTH = ((100, 5), (500, 25), (1000, 50))
_DEEPEST = 250
_DAY_SYMBOLS = ((20, 2), (100, 40))
_DAY_ALL = 80
_PER_WINDOW, _MOST_FOR_WINDOWS = 4, 200


def depth(limit: object) -> int:
    """By the number of levels; 100 if none is named."""
    text = str(limit)
    levels = int(text) if text.isascii() and text.isdecimal() else 100
    return _step(_DEPTH, levels, _DEEPEST)


def day(symbol: str | None, symbols: Sequence[str] | None) -> int:
    """Statistics of 24 hours: of one market, of some, of all."""
    if symbol is not None:
        return _DAY_SYMBOLS[0][1]
    return _DAY_ALL if symbols is None else _step(_DAY_SYMBOLS, len(symbols), _DAY_ALL)


def windows(symbol: str | None, symbols: Sequence[str] | None) -> int:
    """Statistics of another window: so much per market, up to a bound."""
    count = len(symbols) if symbol is None and symbols else 1
    return min(_PER_WINDOW * count, _MOST_FOR_WINDOWS)


def last(symbol: str | None) -> int:
    """The last price or the best quotes: of one market, or of more."""
    return 4 if symbol is None else 2


def _step(steps: Sequence[tuple[int, int]], count: int, beyond: int) -> int:
    return next((cost for most, cost in steps if count <= most), beyond)
