"""A symbol of an exchange, whose ticks are collected."""

from msgspec import Struct

from penstock.errors import BadSymbol
from penstock.exchanges import registry
from penstock.exchanges.base import Exchange
from penstock.market.symbol import Symbol


class TickerSymbol(Struct, frozen=True):
    """A market of one exchange."""

    exchange: str
    symbol: Symbol

    @property
    def key(self) -> str:
        """``sim:BTC/USDT``: its key in the tick cache, and its component in the process cache."""
        return f"{self.exchange}:{self.symbol.unified}"

    @classmethod
    def of(cls, exchange: str, symbol: str) -> "TickerSymbol":
        """Parse the symbol: ``BTC/USDT``, ``btc_usdt`` or ``BTC-USDT``.

        Raises:
            MalformedSymbol: it is none of them.
        """
        return cls(exchange, Symbol.parse(symbol))


def exchange_of(symbol: object) -> Exchange:
    """The exchange of a symbol, if it is one.

    Raises:
        BadSymbol: it is no symbol of an exchange.
        UnknownExchange: there is no exchange of that name.
        MissingExtra: the exchange needs a library that is not installed.
    """
    if not isinstance(symbol, TickerSymbol):
        raise BadSymbol(f"it is a {type(symbol).__name__}")
    # Fields are not validated when it is made.
    market: object = symbol.symbol
    exchange: object = symbol.exchange
    if not isinstance(market, Symbol):
        raise BadSymbol(f"its symbol is a {type(market).__name__}, not a market.symbol.Symbol")
    if not isinstance(exchange, str):
        raise BadSymbol(f"its exchange is a {type(exchange).__name__}, not a name")
    return registry.load(exchange)
