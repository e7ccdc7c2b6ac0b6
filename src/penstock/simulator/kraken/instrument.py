"""Defines an instrument: a listed pair with its market, book, names and number format."""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.simulator.kraken import names
from penstock.simulator.kraken.names import Pair
from penstock.simulator.kraken.spelling import Spelling
from penstock.simulator.market.book import Book, Level
from penstock.simulator.market.market import Market

DAY_MS = 86_400_000


@dataclass(frozen=True)
class Instrument:
    """A listed pair."""

    market: Market
    book: Book
    pair: Pair
    spelling: Spelling

    @property
    def symbol(self) -> str:
        """The pair's name in streams: ``BTC/USD``."""
        return self.pair.symbol

    @property
    def listed_at_ms(self) -> int:
        """The start of the history."""
        return self.market.listing.listed_at_ms

    def touch(self, at_ms: int) -> tuple[Level, Level]:
        """The best bid and ask at a time."""
        touch = self.book.touch(self.market.last_before(at_ms + 1))
        return (touch.bid, touch.bid_quantity), (touch.ask, touch.ask_quantity)


def list_markets(markets: Sequence[Market]) -> list[Instrument]:
    """Build the instruments of markets."""
    return [
        Instrument(each, Book(each), names.pair(each.listing), Spelling(each.listing))
        for each in markets
    ]
