"""A symbol identifies a market, and has two spellings.

``btc_usdt`` is the slug, safe in file names, topics and environment variables. ``BTC/USDT`` is the
unified spelling of ccxt, also accepted with a hyphen, ``BTC-USDT``. An exchange's own spelling
(BTCUSDT, XBT/USDT, KRW-BTC) is never guessed; it is looked up first, in the exchange's symbol map.
"""

from typing import NoReturn
from urllib.parse import quote as percent_encoded
from urllib.parse import unquote_to_bytes
from weakref import WeakValueDictionary

from penstock.errors import MalformedSymbol


class Symbol:
    """A market, as base and quote asset. Immutable, and one object per market.

    Equal symbols are the same object, so a dict look-up compares identities: every event is looked
    up by its symbol. Not a dataclass, because msgspec would then encode it field by field: in
    records a symbol is its unified spelling.
    """

    __slots__ = ("__weakref__", "base", "quote", "slug", "unified")

    base: str
    quote: str
    slug: str
    unified: str

    def __new__(cls, base: str, quote: str) -> "Symbol":
        # Only the case of ASCII letters is changed: Unicode's rules do not round-trip ("İ" in lower
        # and again in upper case is two characters), and exchanges do list non-ASCII assets.
        base, quote = base.translate(_UPPER), quote.translate(_UPPER)
        unified = f"{base}/{quote}"
        known = _known.get(unified)
        if known is not None:
            return known
        for asset in (base, quote):
            _check_asset(asset, unified)
        symbol = super().__new__(cls)
        symbol.base, symbol.quote, symbol.unified = base, quote, unified
        symbol.slug = f"{_slug_part(base)}_{_slug_part(quote)}"
        # Two threads may both get here: the first one's object is kept.
        return _known.setdefault(unified, symbol)

    def __reduce__(self) -> tuple[type["Symbol"], tuple[str, str]]:
        return Symbol, (self.base, self.quote)

    def __lt__(self, other: "Symbol") -> bool:
        return self.unified < other.unified

    def __repr__(self) -> str:
        return f"Symbol({self.unified!r})"

    def __str__(self) -> str:
        return self.unified

    @classmethod
    def parse(cls, text: str) -> "Symbol":
        """Parse ``BTC/USDT``, ``btc_usdt`` or ``BTC-USDT``, in any case.

        Raises:
            MalformedSymbol: it is none of them.
        """
        if "/" in text:
            base, _, quote = text.partition("/")
            return cls(base, quote)
        if "_" not in text and text.count("-") == 1:  # a slug writes a hyphen as %2d
            base, _, quote = text.partition("-")
            return cls(base, quote)
        base, separator, quote = text.partition("_")
        if not separator:
            raise MalformedSymbol(text, "base and quote cannot be told apart")
        return cls(_asset_of(base, text), _asset_of(quote, text))


def is_slug(text: str) -> bool:
    """Whether a text is the slug of a market, exactly as penstock writes it."""
    try:
        return Symbol.parse(text).slug == text
    except MalformedSymbol:
        return False


_known: WeakValueDictionary[str, Symbol] = WeakValueDictionary()
"""All symbols in use, by unified spelling, so that equal symbols are one object."""
_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")


def _check_asset(asset: str, whole: str) -> None:
    if not asset:
        raise MalformedSymbol(whole, "an asset's name is empty")
    if len(asset) > 64:
        raise MalformedSymbol(whole, "an asset's name is longer than 64 characters")
    if "/" in asset or " " in asset or not asset.isprintable():
        raise MalformedSymbol(
            whole, "an asset's name holds a slash or a character that cannot be seen"
        )
    try:
        asset.encode()
    except UnicodeEncodeError:
        raise MalformedSymbol(whole, "an asset's name is not valid Unicode") from None


def _slug_part(asset: str) -> str:
    lowered = asset.translate(_LOWER)
    if _PLAIN.issuperset(lowered):
        return lowered
    # urllib does not encode "_.-~", which have a meaning in slugs, topics or paths.
    return "".join(c if c in _PLAIN else _percent(c) for c in lowered)


def _percent(character: str) -> str:
    encoded = percent_encoded(character, safe="")
    return f"%{ord(character):02x}" if encoded == character else encoded.lower()


def _asset_of(part: str, whole: str) -> str:
    try:
        asset = unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        _refuse(whole)
    # One market has one slug: "%62tc_usdt" would be a second spelling of btc_usdt.
    if _slug_part(asset.translate(_UPPER)) != part.translate(_LOWER):
        _refuse(whole)
    return asset


def _refuse(whole: str) -> NoReturn:
    raise MalformedSymbol(whole, "its percent-encoding is not the one penstock writes")
