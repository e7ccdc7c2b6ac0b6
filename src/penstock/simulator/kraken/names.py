"""Kraken's names: four for a pair, two for an asset, and no rule that gives one from the other.

Old assets have an id with a prefix, X for coins and Z for currencies; newer ones have none, and
some begin with such a letter by nature. The same holds for pairs: the oldest are called by the ids
of their assets, later ones by the short names. So the old ones are listed here, one by one.
"""

from typing import NamedTuple

from penstock.simulator.market.market import Listing

_SHORT = {"BTC": "XBT", "DOGE": "XDG"}
_OLD_COINS = ("XBT", "ETH", "XRP", "LTC", "XDG", "XLM", "XMR", "ZEC", "ETC", "REP", "MLN")
_OLD_CURRENCIES = ("USD", "EUR", "GBP", "CAD", "JPY", "AUD")
# By coin, what its old pairs are quoted in.
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
# One pair is called by the short name of one asset and the id of the other.
_ODD_PAIRS = {"USDTUSD": "USDTZUSD"}


class Asset(NamedTuple):
    """An asset in each of its spellings."""

    id: str
    """``XXBT``: the key of what ``Assets`` tells, and what pairs refer to."""
    short: str
    """``XBT``: its altname."""
    symbol: str
    """``BTC``: what streams call it."""
    is_currency: bool


class Pair(NamedTuple):
    """A pair in each of its spellings."""

    id: str
    """``XXBTZUSD``."""
    short: str
    """``XBTUSD``: its altname."""
    slashed: str
    """``XBT/USD``: its wsname, which the first version of the streams understood."""
    symbol: str
    """``BTC/USD``: what the second one does."""
    base: Asset
    quote: Asset

    @property
    def spellings(self) -> tuple[str, ...]:
        """All that REST understands."""
        return self.id, self.short, self.slashed, self.symbol


def asset(symbol: str) -> Asset:
    """The asset of that symbol."""
    short = _SHORT.get(symbol, symbol)
    prefix = "X" if short in _OLD_COINS else "Z" if short in _OLD_CURRENCIES else ""
    return Asset(prefix + short, short, symbol, prefix == "Z")


def pair(listing: Listing) -> Pair:
    """The pair that a market is listed as."""
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
