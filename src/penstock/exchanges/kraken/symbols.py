"""Kraken's symbols: what ``AssetPairs`` says, in the names the second version of its streams uses.

A pair has four spellings. ``XXBTZUSD`` is its id, which REST takes and answers with; ``XBTUSD`` is
its ``altname``; ``XBT/USD`` is its ``wsname``, made of the ``altname`` of both assets; ``BTC/USD``
is what streams of version 2 call it, and what everybody else does:

    {"error":[],"result":{"XXBTZUSD":{"altname":"XBTUSD","wsname":"XBT/USD","base":"XXBT",
     "quote":"ZUSD",…,"status":"online"},…}}

Letters are never stripped: XXBT is XBT, but XTZ is XTZ. Pairs without a ``wsname`` are the dark
pools of old (``XXBTZUSD.d``), which nobody can stream and whose trades nobody is shown.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from penstock.errors import MalformedSymbol, UnexpectedAnswer
from penstock.exchanges.base import Info, Listed, SymbolMap
from penstock.market.symbol import Symbol

NAME = "kraken"
# The two assets whose own names the exchange gave up: its first streams say XBT, its second BTC.
_RENAMED = {"XBT": "BTC", "XDG": "DOGE"}


class _Pair(Struct, frozen=True):
    """A value of ``AssetPairs.result``; its key is the pair's id."""

    altname: str
    wsname: str = ""


class _Pairs(Struct, frozen=True):
    """The answer to GET /0/public/AssetPairs."""

    result: dict[str, _Pair]


_decode = msgspec.json.Decoder(_Pairs).decode


def read_info(body: bytes, _received_at_ns: int) -> Info:
    """The symbol map of an ``AssetPairs``; Kraken announces no limits.

    Raises:
        UnexpectedAnswer: it is none.
    """
    try:
        pairs = _decode(body).result
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnexpectedAnswer(f"AssetPairs cannot be read: {error}") from error
    return Info(SymbolMap(NAME, _listed(pairs)), limits=())


def _listed(pairs: dict[str, _Pair]) -> Iterator[Listed]:
    """Every pair that can be named."""
    for pair_id, pair in pairs.items():
        base, slash, quote = pair.wsname.partition("/")
        if not slash:
            continue
        base, quote = _RENAMED.get(base, base), _RENAMED.get(quote, quote)
        try:
            symbol = Symbol(base, quote)
        except MalformedSymbol:
            continue  # one bad name must not hide the others
        # Streams want the exchange's own case, which a symbol does not keep: AAPLx/USD.
        yield Listed(pair_id, symbol, f"{base}/{quote}", (pair.altname, pair.wsname))
