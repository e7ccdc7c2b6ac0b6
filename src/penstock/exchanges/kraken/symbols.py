"""Kraken's symbols: what ``AssetPairs`` says, in the names the second version of its streams uses.

A pair has four spellings. ``XXBTZUSD`` is its id, which REST takes and answers with; ``XBTUSD`` is
its ``altname``; ``XBT/USD`` is its ``wsname``, which streams of version 1 used; ``BTC/USD`` is what
streams of version 2 call it, and what everybody else does. A pair refers to its assets by id, and
``Assets`` tells what each is called:

    {"error":[],"result":{"XXBTZUSD":{"altname":"XBTUSD","wsname":"XBT/USD","base":"XXBT",
     "quote":"ZUSD",…,"status":"online"},…}}
    {"error":[],"result":{"XXBT":{"aclass":"currency","altname":"XBT","decimals":10,…},…}}

Letters are never stripped: XXBT is XBT, but XTZ is XTZ. Pairs without a ``wsname`` are the dark
pools of old (``XXBTZUSD.d``), which nobody can stream and whose trades nobody is shown.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import msgspec
from msgspec import Struct

from penstock.errors import MalformedSymbol, UnexpectedAnswer
from penstock.exchanges.answers import UNREADABLE, step_of_digits, step_text, word
from penstock.exchanges.base import Info, ListedMarket, MarketDetails, SymbolMap
from penstock.market.symbol import Symbol

NAME = "kraken"
# The two assets whose own names the exchange gave up: its first streams say XBT, its second BTC.
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


class _Pairs(Struct, frozen=True):
    """The answer to GET /0/public/AssetPairs."""

    result: dict[str, _Pair]


class _Asset(Struct, frozen=True):
    """A value of ``Assets.result``; its key is the asset's id."""

    altname: str


class _Assets(Struct, frozen=True):
    """The answer to GET /0/public/Assets."""

    result: dict[str, _Asset]


_decode = msgspec.json.Decoder(_Pairs).decode
_decode_assets = msgspec.json.Decoder(_Assets).decode


def read_assets(body: bytes, _received_at_ns: int) -> dict[str, str]:
    """What assets are called, by their ids.

    Raises:
        UnexpectedAnswer: it does not tell.
    """
    try:
        return {asset_id: each.altname for asset_id, each in _decode_assets(body).result.items()}
    except UNREADABLE as error:
        raise UnexpectedAnswer(f"Assets cannot be read: {error}") from error


def read_info(
    body: bytes, _received_at_ns: int, names: Mapping[str, str] = MappingProxyType({})
) -> Info:
    """The symbol map of an ``AssetPairs``; Kraken announces no limits.

    ``names`` are those of assets by id. One that is not among them has the name in the ``wsname``.

    Raises:
        UnexpectedAnswer: it is none.
    """
    try:
        pairs = _decode(body).result
    except UNREADABLE as error:
        raise UnexpectedAnswer(f"AssetPairs cannot be read: {error}") from error
    return Info(SymbolMap(NAME, _listed(pairs, names)), limits=())


def _listed(pairs: dict[str, _Pair], names: Mapping[str, str]) -> Iterator[ListedMarket]:
    """Every pair that can be named."""
    for pair_id, pair in pairs.items():
        base, slash, quote = pair.wsname.partition("/")
        if not slash:
            continue
        base, quote = names.get(pair.base, base), names.get(pair.quote, quote)
        base, quote = _RENAMED.get(base, base), _RENAMED.get(quote, quote)
        try:
            symbol = Symbol(base, quote)
        except MalformedSymbol:
            continue  # one bad name must not hide the others
        # Streams want the exchange's own case, which a symbol does not keep: AAPLx/USD.
        typed = (pair.altname, pair.wsname)
        yield ListedMarket(pair_id, symbol, f"{base}/{quote}", typed, pair.details())
