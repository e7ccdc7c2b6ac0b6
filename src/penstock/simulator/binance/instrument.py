"""One symbol as the exchange holds it: its market, its book and its spelling."""

from dataclasses import dataclass

from penstock.simulator.binance.spelling import Spelling
from penstock.simulator.book import Book
from penstock.simulator.market import Market


@dataclass(frozen=True)
class Instrument:
    """A listed symbol."""

    market: Market
    book: Book
    spelling: Spelling

    @property
    def symbol(self) -> str:
        """Base and quote in one word, upper case."""
        return self.spelling.symbol

    @property
    def listed_at_ms(self) -> int:
        """The first instant with history."""
        return self.market.listing.listed_at_ms


def list_market(market: Market) -> Instrument:
    """Take a market on."""
    return Instrument(market, Book(market), Spelling(market.listing))
