"""The markets of an exchange: their symbols, and the exchange's own names for them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from penstock.errors import MalformedSymbol, UnknownSymbol
from penstock.market.symbol import Symbol


class MarketDetails(NamedTuple):
    """Details of a market besides its names; None where the exchange does not provide them."""

    tick_size: str | None = None
    """The step of its prices."""
    lot_size: str | None = None
    """The step of its quantities."""
    status: str | None = None
    """The trading status, in the exchange's own term."""


class ListedMarket(NamedTuple):
    """A market with all the names that the exchange has for it."""

    native: str
    """The name in requests."""
    symbol: Symbol
    streamed: str = ""
    """The name in streams, if it differs."""
    typed: tuple[str, ...] = ()
    """Further names that users may enter."""
    details: MarketDetails = MarketDetails()


class SymbolMap:
    """Maps symbols to an exchange's own names, and back."""

    def __init__(self, exchange: str, listed: Iterable[tuple[str, Symbol] | ListedMarket]) -> None:
        self.exchange = exchange
        self.listed: tuple[ListedMarket, ...] = ()
        """All markets of the map; a map made from these is equal to it."""
        self._symbols: dict[str, Symbol] = {}
        self._natives: dict[Symbol, str] = {}
        self._streamed: dict[Symbol, str] = {}
        self._typed: dict[str, Symbol] = {}
        self.learn(listed)

    def learn(self, listed: Iterable[tuple[str, Symbol] | ListedMarket]) -> None:
        """Add or update markets. Delisted ones stay: their data may still be requested."""
        fresh = {each.native: each for each in (ListedMarket(*each) for each in listed)}
        kept = (each for each in self.listed if each.native not in fresh)
        self.listed = (*kept, *fresh.values())
        for each in fresh.values():
            self._symbols[each.native] = each.symbol
            self._natives[each.symbol] = each.native
            self._streamed[each.symbol] = each.streamed or each.native
            self._typed.update(dict.fromkeys(each.typed, each.symbol))

    def __len__(self) -> int:
        return len(self._natives)

    def __iter__(self) -> Iterator[Symbol]:
        return iter(self._natives)

    def native(self, symbol: Symbol) -> str:
        """The exchange's name of a symbol.

        Raises:
            UnknownSymbol: the exchange does not list it.
        """
        try:
            return self._natives[symbol]
        except KeyError:
            raise UnknownSymbol(self.exchange, symbol.unified, self._known()) from None

    def stream_name(self, symbol: Symbol) -> str:
        """The exchange's name of a symbol in streams.

        Raises:
            UnknownSymbol: the exchange does not list it.
        """
        return self._streamed.get(symbol) or self.native(symbol)

    def symbol(self, native: str) -> Symbol:
        """The symbol for an exchange's name.

        Raises:
            UnknownSymbol: the exchange lists nothing under that name.
        """
        try:
            return self._symbols[native]
        except KeyError:
            raise UnknownSymbol(self.exchange, native, self._symbols) from None

    def get(self, native: str) -> Symbol | None:
        """The symbol for an exchange's name; None if it is not in the map."""
        return self._symbols.get(native)

    def find(self, text: str) -> Symbol:
        """The symbol for a user's input: a slug, a unified symbol, or the exchange's own name.

        Raises:
            UnknownSymbol: there is none; the error has near matches.
        """
        for spelling in (text, text.upper()):
            own = self._symbols.get(spelling) or self._typed.get(spelling)
            if own is not None:
                return own
        try:
            symbol = Symbol.parse(text)
        except MalformedSymbol:
            raise UnknownSymbol(self.exchange, text, self._known()) from None
        if symbol not in self._natives:
            raise UnknownSymbol(self.exchange, text, self._known())
        return symbol

    def _known(self) -> list[str]:
        return [symbol.slug for symbol in self._natives]
