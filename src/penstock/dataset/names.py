"""Finds the streams that a caller names: by exchange, and by symbol in any spelling."""

from collections.abc import Callable, Collection, Iterable, Sequence

from penstock.errors import MalformedSymbol, NotCollected
from penstock.market.symbol import Symbol
from penstock.storage.log.keys import Stream

Symbols = str | Symbol | Sequence[str | Symbol] | None
"""One market, several, or None for all: ``BTC/USDT``, ``btc_usdt``, or the exchange's own name."""
Exchanges = str | Sequence[str] | None
Natives = Callable[[str], dict[str, Symbol]]
"""The markets of an exchange by the exchange's own name, as far as they are known."""


def find_streams(
    known: Collection[Stream],
    channels: Collection[str],
    symbols: Symbols,
    exchanges: Exchanges,
    natives: Natives,
) -> list[Stream]:
    """The streams of these channels that match, sorted.

    A market that was collected, but not in these channels, has no stream: the result may be empty.

    Raises:
        NotCollected: an exchange or a market is in no stream at all; it has near matches.
    """
    chosen = _exchanges(known, exchanges)
    found = [each for each in known if each.exchange in chosen]
    slugs = None if symbols is None else _slugs(found, _several(symbols), natives)
    return sorted(
        each
        for each in found
        if each.channel in channels and (slugs is None or (each.exchange, each.symbol) in slugs)
    )


def _exchanges(known: Iterable[Stream], exchanges: Exchanges) -> set[str]:
    there = {each.exchange for each in known}
    if exchanges is None:
        return there
    chosen = {exchanges} if isinstance(exchanges, str) else set(exchanges)
    for name in sorted(chosen - there):
        raise NotCollected(name, there)
    return chosen


def _several(symbols: str | Symbol | Sequence[str | Symbol]) -> list[str]:
    listed = [symbols] if isinstance(symbols, str | Symbol) else symbols
    return [each.unified if isinstance(each, Symbol) else each for each in listed]


def _slugs(
    streams: Collection[Stream], typed: Iterable[str], natives: Natives
) -> set[tuple[str, str]]:
    """The exchange and slug of every market that is named."""
    markets = {(each.exchange, each.symbol) for each in streams}
    found: set[tuple[str, str]] = set()
    for text in typed:
        matches = _matches(text, markets, natives)
        if not matches:
            raise NotCollected(text, {Symbol.parse(slug).unified for _, slug in markets})
        found |= matches
    return found


def _matches(text: str, markets: set[tuple[str, str]], natives: Natives) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for exchange in sorted({exchange for exchange, _ in markets}):
        # The exchange's own names come first: KRW-BTC is the market BTC/KRW of one exchange.
        own = natives(exchange)
        symbol = own.get(text) or own.get(text.upper())
        slug = symbol.slug if symbol is not None else _slug(text)
        if slug is not None and (exchange, slug) in markets:
            found.add((exchange, slug))
    return found or {market for market in markets if _bare(market[1]) == _bare(text)}


def _slug(text: str) -> str | None:
    try:
        return Symbol.parse(text).slug
    except MalformedSymbol:
        return None


def _bare(text: str) -> str:
    """A name without case and separators: BTCUSDT and btc_usdt are the same."""
    return "".join(each for each in text.lower() if each.isalnum())
