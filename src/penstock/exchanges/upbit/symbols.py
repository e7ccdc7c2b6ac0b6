"""Reads Upbit's symbols, which begin with the quote.

    [{"market":"KRW-BTC","korean_name":"비트코인","english_name":"Bitcoin"},…]

``KRW-BTC`` is bitcoin priced in won, elsewhere BTC/KRW. Delisted markets are not included.
"""

import msgspec
from msgspec import Struct

from penstock.exchanges.answers import decoded
from penstock.exchanges.base import Info, ListedMarket
from penstock.exchanges.listing import info_of
from penstock.market.symbol import Symbol

NAME = "upbit"


class _Market(Struct, frozen=True):
    """An element of the response to GET /v1/market/all."""

    market: str

    def listed(self) -> ListedMarket:
        quote, _, base = self.market.partition("-")
        return ListedMarket(self.market, Symbol(base, quote))


_decode = msgspec.json.Decoder(list[_Market]).decode


def read_info(body: bytes, _received_at_ns: int) -> Info:
    """The symbol map from a list of markets; Upbit announces no limits.

    Raises:
        UnexpectedAnswer: the body is not a list of markets.
    """
    return info_of(NAME, decoded(_decode, body), _Market.listed)
