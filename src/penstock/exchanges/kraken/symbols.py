"""Reads Kraken's symbols from ``AssetPairs``, with the names used in version 2 of its streams.

A pair has four names. ``XXBTZUSD`` is its id, used in REST requests and responses; ``XBTUSD`` is
its ``altname``; ``XBT/USD`` is its ``wsname``, used in version 1 of the streams; ``BTC/USD`` is
used in version 2, and by other exchanges. A pair refers to its assets by id, and ``Assets`` has
their names:

    {"error":[],"result":{"XXBTZUSD":{"altname":"XBTUSD","wsname":"XBT/USD","base":"XXBT",
     "quote":"ZUSD",…,"status":"online"},…}}
    {"error":[],"result":{"XXBT":{"aclass":"currency","altname":"XBT","decimals":10,…},…}}

Letters are never stripped: XXBT is XBT, but XTZ is XTZ. Pairs without a ``wsname`` are former dark
pools (``XXBTZUSD.d``), which have neither streams nor public trades.
"""

from collections.abc import Mapping
from typing import Generic, TypeVar

from msgspec import Struct

from penstock.exchanges.answers import step_of_digits, step_text, word
from penstock.exchanges.base import Info, Request
from penstock.exchanges.listing import info_of
from penstock.exchanges.resource import Resource
from penstock.exchanges.symbol_map import ListedMarket, MarketDetails
from penstock.market.symbol import Symbol

NAME = "kraken"
# The two assets that have another name in version 2 of the streams than in version 1.
_RENAMED = {"XBT": "BTC", "XDG": "DOGE"}


class _Pair(Struct, frozen=True):
    """A value of ``AssetPairs.result``; its key is the pair's id."""

    altname: str
    wsname: str = ""
    base: str = ""
    quote: str = ""
    tick_size: object = None
    lot_decimals: object = None
    status: object = None

    def details(self) -> MarketDetails:
        lot = step_of_digits(self.lot_decimals)
        return MarketDetails(step_text(self.tick_size), lot, word(self.status))


class _Asset(Struct, frozen=True):
    """A value of ``Assets.result``; its key is the asset's id."""

    altname: str


R = TypeVar("R")


class Answer(Struct, Generic[R]):
    """Any response without an error."""

    result: R


_PAIRS = Resource("/0/public/AssetPairs", Answer[dict[str, _Pair]])
ASSETS = Resource("/0/public/Assets", Answer[dict[str, _Asset]]).request(
    lambda answer, _at_ns: {key: asset.altname for key, asset in answer.result.items()}
)


def info_with(names: Mapping[str, str]) -> Request[Info]:
    """The request for the market listing, read with asset names by id.

    For an asset not among them the name in ``wsname`` is used.
    """

    def market_of(listed: tuple[str, _Pair]) -> ListedMarket | None:
        pair_id, pair = listed
        base, slash, quote = pair.wsname.partition("/")
        if not slash:
            return None
        base, quote = names.get(pair.base, base), names.get(pair.quote, quote)
        base, quote = _RENAMED.get(base, base), _RENAMED.get(quote, quote)
        # Streams require the exchange's own case, which a symbol does not keep: AAPLx/USD.
        streamed, typed = f"{base}/{quote}", (pair.altname, pair.wsname)
        return ListedMarket(pair_id, Symbol(base, quote), streamed, typed, pair.details())

    return _PAIRS.request(lambda answer, _: info_of(NAME, answer.result.items(), market_of))


INFO = info_with({})
