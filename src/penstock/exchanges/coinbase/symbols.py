"""Reads Coinbase's symbols from the two halves of a product's id.

    {"id":"BTC-USD","base_currency":"BTC","quote_currency":"USD","quote_increment":"0.01",
     "base_increment":"0.00000001",…,"status":"online",…}

The id is used and not the currencies beside it: an auction book, ``BTCAUCTION-USD``, has the same
currencies as the ordinary one. Products that are offline or delisted are included: their history
can still be requested.
"""

from msgspec import Struct

from penstock.exchanges.answers import step_text, word
from penstock.exchanges.listing import info_of
from penstock.exchanges.resource import Resource
from penstock.exchanges.symbol_map import ListedMarket, MarketDetails
from penstock.market.symbol import Symbol

NAME = "coinbase"


class _Product(Struct, frozen=True):
    """An element of the response to GET /products."""

    id: str
    quote_increment: object = None
    base_increment: object = None
    status: object = None

    def listed(self) -> ListedMarket:
        base, _, quote = self.id.partition("-")
        tick, lot = step_text(self.quote_increment), step_text(self.base_increment)
        details = MarketDetails(tick, lot, word(self.status))
        return ListedMarket(self.id, Symbol(base, quote), details=details)


INFO = Resource("/products", list[_Product]).request(
    lambda products, _at_ns: info_of(NAME, products, _Product.listed)
)
