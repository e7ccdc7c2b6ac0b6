"""Reads Binance's symbols from ``exchangeInfo``, never from the name alone.

``BTCUSDT`` cannot be split by its letters (is ``BNBUSDT`` BNB/USDT or BNBU/SDT?); the exchange
names both assets beside it:

    {"symbol":"ETHBTC","status":"TRADING","baseAsset":"ETH",…,"quoteAsset":"BTC",…,
     "filters":[{"filterType":"PRICE_FILTER",…,"tickSize":"0.00001000"},
                {"filterType":"LOT_SIZE",…,"stepSize":"0.00010000"},…]}

Symbols that are halted or closed are included: their history can still be requested.
"""

from msgspec import Struct, field

from penstock.exchanges.answers import step_text, word
from penstock.exchanges.binance.limits import INFO_COST, RateLimit, announced
from penstock.exchanges.listing import info_of
from penstock.exchanges.resource import Resource
from penstock.exchanges.symbol_map import ListedMarket, MarketDetails
from penstock.market.symbol import Symbol

NAME = "binance"


class _Filter(Struct, frozen=True):
    """A rule for orders; each type has fields of its own."""

    type: str = field(name="filterType", default="")
    tick_size: object = field(name="tickSize", default=None)
    step_size: object = field(name="stepSize", default=None)


class _Listed(Struct, frozen=True):
    """An element of ``exchangeInfo.symbols``."""

    native: str = field(name="symbol")
    base: str = field(name="baseAsset")
    quote: str = field(name="quoteAsset")
    status: object = None
    filters: tuple[_Filter, ...] = ()

    def listed(self) -> ListedMarket:
        ticks = (step_text(each.tick_size) for each in self.filters if each.type == "PRICE_FILTER")
        lots = (step_text(each.step_size) for each in self.filters if each.type == "LOT_SIZE")
        details = MarketDetails(next(ticks, None), next(lots, None), word(self.status))
        return ListedMarket(self.native, Symbol(self.base, self.quote), details=details)


class _ExchangeInfo(Struct, frozen=True):
    """The response to GET /api/v3/exchangeInfo."""

    symbols: list[_Listed]
    rate_limits: list[RateLimit] = field(name="rateLimits")


INFO = Resource("/api/v3/exchangeInfo", _ExchangeInfo, INFO_COST).request(
    lambda info, _at_ns: info_of(NAME, info.symbols, _Listed.listed, announced(info.rate_limits))
)
