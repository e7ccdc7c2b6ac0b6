"""Reads Upbit's symbols, which begin with the quote.

    [{"market":"KRW-BTC","korean_name":"비트코인","english_name":"Bitcoin"},…]

``KRW-BTC`` is bitcoin priced in won, elsewhere BTC/KRW. Delisted markets are not included.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from penstock.errors import MalformedSymbol
from penstock.exchanges.answers import decoded
from penstock.exchanges.base import Info, SymbolMap
from penstock.market.symbol import Symbol

NAME = "upbit"


class _Market(Struct, frozen=True):
    """An element of the response to GET /v1/market/all."""

    market: str


_decode = msgspec.json.Decoder(list[_Market]).decode


def read_info(body: bytes, _received_at_ns: int) -> Info:
    """The symbol map from a list of markets; Upbit announces no limits.

    Raises:
        UnexpectedAnswer: the body is not a list of markets.
    """
    return Info(SymbolMap(NAME, _listed(decoded(_decode, body))), limits=())


def _listed(markets: list[_Market]) -> Iterator[tuple[str, Symbol]]:
    """All markets with a valid name."""
    for each in markets:
        quote, _, base = each.market.partition("-")
        try:
            yield each.market, Symbol(base, quote)
        except MalformedSymbol:
            continue  # one bad name must not hide the others
