"""Reads Upbit's symbols, which begin with the quote.

    [{"market":"KRW-BTC","korean_name":"비트코인","english_name":"Bitcoin"},…]

``KRW-BTC`` is bitcoin priced in won, elsewhere BTC/KRW. Delisted markets are not included.
"""

from msgspec import Struct

from penstock.exchanges.listing import info_of
from penstock.exchanges.resource import Resource
from penstock.exchanges.symbol_map import ListedMarket
from penstock.market.symbol import Symbol

NAME = "upbit"


class _Market(Struct, frozen=True):
    """An element of the response to GET /v1/market/all."""

    market: str

    def listed(self) -> ListedMarket:
        quote, _, base = self.market.partition("-")
        return ListedMarket(self.market, Symbol(base, quote))


INFO = Resource("/v1/market/all", list[_Market], category="market").request(
    lambda markets, _at_ns: info_of(NAME, markets, _Market.listed)
)
