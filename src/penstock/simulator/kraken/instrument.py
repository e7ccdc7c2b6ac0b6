"""One pair as the exchange holds it: its market, its book, its names and its numbers."""

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
        """As streams call it: ``BTC/USD``."""
        return self.pair.symbol

    @property
    def listed_at_ms(self) -> int:
        """The first instant with history."""
        return self.market.listing.listed_at_ms

    def touch(self, at_ms: int) -> tuple[Level, Level]:
        """The best bid and offer at an instant."""
        touch = self.book.touch(self.market.last_before(at_ms + 1))
        return (touch.bid, touch.bid_quantity), (touch.ask, touch.ask_quantity)


def list_markets(markets: Sequence[Market]) -> list[Instrument]:
    """Take markets on."""
    return [
        Instrument(each, Book(each), names.pair(each.listing), Spelling(each.listing))
        for each in markets
    ]
