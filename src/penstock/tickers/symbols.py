"""The symbols whose ticks the daemons collect, in the state store that all processes share."""

from collections.abc import Collection

from penstock.errors import MalformedSymbol
from penstock.market.symbol import Symbol
from penstock.storage.state import Document, Query, StateStore
from penstock.storage.state.documents import Condition
from penstock.storage.state.schema import SYMBOLS
from penstock.tickers.model import TickerSymbol, exchange_of

_PAGE = 1000


class TickerSymbols:
    """The symbols in a state store."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    async def add(self, symbol: TickerSymbol) -> bool:
        """Have the ticks of a symbol collected; return whether it is new.

        Raises:
            BadSymbol, UnknownExchange: it is no symbol of an exchange. Nothing was changed.
            StorageError: the store cannot be written.
        """
        exchange_of(symbol)
        document = {
            "id": symbol.key,
            "exchange": symbol.exchange,
            "symbol": symbol.symbol.unified,
            "added_at": await self._store.now_ms(),
        }
        return (await self._store.insert_if_absent(SYMBOLS, document)).created

    async def remove(self, symbol: TickerSymbol) -> bool:
        """Collect a symbol no longer; return whether it was there.

        Raises:
            StorageError: the store cannot be written.
        """
        return await self._store.delete(SYMBOLS, symbol.key)

    async def get_all(self, exchanges: Collection[str] | None = None) -> list[TickerSymbol]:
        """All symbols, or those of some exchanges, by exchange and symbol.

        Raises:
            StorageError: the store cannot be read.
        """
        query: Query = ()
        if exchanges is not None:
            query = [[Condition("exchange", "in", tuple(exchanges))]]
        found: list[TickerSymbol] = []
        last: Document | None = None
        while True:
            page = await self._store.find(
                SYMBOLS, query, ("exchange", "symbol"), limit=_PAGE, after=last
            )
            found += [symbol for each in page if (symbol := _read(each)) is not None]
            if len(page) < _PAGE:
                return found
            last = page[-1]


def _read(document: Document) -> TickerSymbol | None:
    """A symbol; None if another version wrote it and it cannot be read."""
    try:
        return TickerSymbol(document["exchange"], Symbol.parse(document["symbol"]))
    except MalformedSymbol:
        return None
