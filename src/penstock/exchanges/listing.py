"""Makes a symbol map from an exchange's listing of markets."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from penstock.errors import MalformedSymbol
from penstock.exchanges.base import Info
from penstock.exchanges.symbol_map import ListedMarket, SymbolMap
from penstock.throttle.gate import Limit

R = TypeVar("R")


def info_of(
    exchange: str,
    rows: Iterable[R],
    market_of: Callable[[R], ListedMarket | None],
    limits: tuple[Limit, ...] = (),
) -> Info:
    """The markets in these rows, without those that have no valid name, and announced limits.

    ``market_of`` returns None for a row that is not a market.
    """
    return Info(SymbolMap(exchange, _listed(rows, market_of)), limits)


def _listed(
    rows: Iterable[R], market_of: Callable[[R], ListedMarket | None]
) -> Iterator[ListedMarket]:
    for row in rows:
        try:
            market = market_of(row)
        except MalformedSymbol:
            continue  # one bad name must not hide the others
        if market is not None:
            yield market
