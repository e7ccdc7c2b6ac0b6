"""Computes the weight of each request from its parameters alone.

The weight is charged before the parameters are validated, so a malformed parameter is not an error
here: the request costs the same as without it.
"""

from penstock.simulator.binance.parameters import symbol_names
from penstock.simulator.engine.exchange import Query

# (largest number of levels, weight)
_DEPTH = ((100, 5), (500, 25), (1000, 50), (5000, 250))
_DAY_SYMBOLS = ((20, 2), (100, 40))
_DAY_ALL = 80
_PER_WINDOW, _MOST_FOR_WINDOWS = 4, 200


def depth(query: Query) -> int:
    """The weight by the number of levels, by default 100; more than 5,000 count as 5,000."""
    text = query.get("limit", "")
    limit = int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else 100
    return next((weight for most, weight in _DEPTH if limit <= most), _DEPTH[-1][1])


def day(query: Query) -> int:
    """The weight by the number of symbols."""
    if "symbol" in query:
        return _DAY_SYMBOLS[0][1]
    if "symbols" not in query:
        return _DAY_ALL
    count = _count(query)
    return next((weight for most, weight in _DAY_SYMBOLS if count <= most), _DAY_ALL)


def window(query: Query) -> int:
    """A fixed weight per symbol, up to a maximum."""
    count = 1 if "symbol" in query else max(1, _count(query))
    return min(_PER_WINDOW * count, _MOST_FOR_WINDOWS)


def simple(query: Query) -> int:
    """One weight for a single symbol, another for several."""
    return 2 if "symbol" in query else 4


def _count(query: Query) -> int:
    return len(symbol_names(query.get("symbols", "")) or ())
