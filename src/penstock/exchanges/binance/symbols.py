"""Binance's symbols: what ``exchangeInfo`` says, never what a name looks like.

``BTCUSDT`` cannot be split by looking at it (is ``BNBUSDT`` BNB/USDT or BNBU/SDT?); the exchange
names both assets beside it:

    {"symbol":"ETHBTC","status":"TRADING","baseAsset":"ETH",…,"quoteAsset":"BTC",…}

Symbols that are halted or closed are listed too: their history can still be asked for.
"""

import msgspec
from msgspec import Struct, field

from penstock.errors import MalformedSymbol, UnexpectedAnswer
from penstock.exchanges.base import Info, SymbolMap
from penstock.exchanges.binance.limits import RateLimit, announced
from penstock.market.symbol import Symbol

NAME = "binance"


class _Listed(Struct, frozen=True):
    """An element of ``exchangeInfo.symbols``."""

    native: str = field(name="symbol")
    base: str = field(name="baseAsset")
    quote: str = field(name="quoteAsset")


class _ExchangeInfo(Struct, frozen=True):
    """The answer to GET /api/v3/exchangeInfo."""

    symbols: list[_Listed]
    rate_limits: list[RateLimit] = field(name="rateLimits")


_decode = msgspec.json.Decoder(_ExchangeInfo).decode


def read_info(body: bytes, _received_at_ns: int) -> Info:
    """The symbol map and the limits that an ``exchangeInfo`` announces.

    Raises:
        UnexpectedAnswer: it is none.
    """
    try:
        info = _decode(body)
        natives = [(row.native, Symbol(row.base, row.quote)) for row in info.symbols]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, MalformedSymbol) as error:
        raise UnexpectedAnswer(f"exchangeInfo cannot be read: {error}") from error
    return Info(SymbolMap(NAME, natives), announced(info.rate_limits))
