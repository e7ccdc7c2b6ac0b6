"""Defines Kraken's names of assets and pairs, which cannot be derived from each other.

Old assets have an id with a prefix, X for coins and Z for currencies; newer ones have none, and the
names of some begin with X or Z anyway. Likewise, the ids of the oldest pairs are made of the ids of
their assets, those of later ones of the short names. So the old ones are listed here.
"""

from typing import NamedTuple

from penstock.simulator.market.market import Listing

_SHORT = {"BTC": "XBT", "DOGE": "XDG"}
_OLD_COINS = ("XBT", "ETH", "XRP", "LTC", "XDG", "XLM", "XMR", "ZEC", "ETC", "REP", "MLN")
_OLD_CURRENCIES = ("USD", "EUR", "GBP", "CAD", "JPY", "AUD")
# Base asset → quote assets of its old pairs.
_OLD_QUOTES = {
    "XBT": ("USD", "EUR", "GBP", "CAD", "JPY"),
    "ETH": ("XBT", "USD", "EUR", "GBP", "CAD", "JPY"),
    "XRP": ("XBT", "USD", "EUR", "CAD", "JPY"),
    "LTC": ("XBT", "USD", "EUR", "JPY"),
    "XDG": ("XBT",),
    "XLM": ("XBT", "USD", "EUR", "GBP", "AUD"),
    "XMR": ("XBT", "USD", "EUR"),
    "ZEC": ("XBT", "USD", "EUR"),
    "ETC": ("XBT", "ETH", "USD", "EUR"),
    "REP": ("XBT", "ETH", "USD", "EUR"),
    "MLN": ("XBT", "ETH", "USD", "EUR"),
    "EUR": ("USD",),
    "GBP": ("USD",),
    "USD": ("CAD", "JPY"),
}
# The id of this pair has the short name of one asset and the id of the other.
_ODD_PAIRS = {"USDTUSD": "USDTZUSD"}


class Asset(NamedTuple):
    """An asset with all its names."""

    id: str
    """``XXBT``: the key in ``Assets``, referred to by pairs."""
    short: str
    """``XBT``: its altname."""
    symbol: str
    """``BTC``: its name in streams."""
    is_currency: bool


class Pair(NamedTuple):
    """A pair with all its names."""

    id: str
    """``XXBTZUSD``."""
    short: str
    """``XBTUSD``: its altname."""
    slashed: str
    """``XBT/USD``: its wsname, used by version 1 of the streams."""
    symbol: str
    """``BTC/USD``: its name in version 2 of the streams."""
    base: Asset
    quote: Asset

    @property
    def spellings(self) -> tuple[str, ...]:
        """All names that REST accepts."""
        return self.id, self.short, self.slashed, self.symbol


def asset(symbol: str) -> Asset:
    """The asset of that symbol."""
    short = _SHORT.get(symbol, symbol)
    prefix = "X" if short in _OLD_COINS else "Z" if short in _OLD_CURRENCIES else ""
    return Asset(prefix + short, short, symbol, prefix == "Z")


def pair(listing: Listing) -> Pair:
    """The pair of a listing."""
    base, quote = asset(listing.base), asset(listing.quote)
    short = base.short + quote.short
    is_old = quote.short in _OLD_QUOTES.get(base.short, ())
    pair_id = base.id + quote.id if is_old else _ODD_PAIRS.get(short, short)
    return Pair(
        id=pair_id,
        short=short,
        slashed=f"{base.short}/{quote.short}",
        symbol=f"{listing.base}/{listing.quote}",
        base=base,
        quote=quote,
    )
