"""What each request costs, from its parameters alone.

The weight is charged before the request is read, so a malformed parameter is not an error here: it
costs what its absence would.
"""

from penstock.simulator.binance.parameters import symbol_names
from penstock.simulator.engine.exchange import Query

# Up to so many levels, so much weight.
_DEPTH = ((100, 5), (500, 25), (1000, 50), (5000, 250))
_DAY_SYMBOLS = ((20, 2), (100, 40))
_DAY_ALL = 80
_PER_WINDOW, _MOST_FOR_WINDOWS = 4, 200


def depth(query: Query) -> int:
    """By the number of levels, 100 unless it says otherwise; more than 5,000 are cut to 5,000."""
    text = query.get("limit", "")
    limit = int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else 100
    return next((weight for most, weight in _DEPTH if limit <= most), _DEPTH[-1][1])


def day(query: Query) -> int:
    """By the number of symbols."""
    if "symbol" in query:
        return _DAY_SYMBOLS[0][1]
    if "symbols" not in query:
        return _DAY_ALL
    count = _count(query)
    return next((weight for most, weight in _DAY_SYMBOLS if count <= most), _DAY_ALL)


def window(query: Query) -> int:
    """So much per symbol, up to a bound."""
    count = 1 if "symbol" in query else max(1, _count(query))
    return min(_PER_WINDOW * count, _MOST_FOR_WINDOWS)


def simple(query: Query) -> int:
    """One symbol, or more."""
    return 2 if "symbol" in query else 4


def _count(query: Query) -> int:
    return len(symbol_names(query.get("symbols", "")) or ())
