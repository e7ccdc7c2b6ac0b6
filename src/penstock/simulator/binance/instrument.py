"""Defines an instrument: a listed symbol with its market, its book and its number format."""

from dataclasses import dataclass, replace

from penstock.simulator.binance.spelling import Spelling
from penstock.simulator.binance.units import TimeUnit
from penstock.simulator.market.book import Book
from penstock.simulator.market.market import Market


@dataclass(frozen=True)
class Instrument:
    """A listed symbol."""

    market: Market
    book: Book
    spelling: Spelling

    @property
    def symbol(self) -> str:
        """Base and quote without a separator, upper case."""
        return self.spelling.symbol

    @property
    def listed_at_ms(self) -> int:
        """The start of the history."""
        return self.market.listing.listed_at_ms

    def in_unit(self, unit: TimeUnit) -> "Instrument":
        """The same instrument with times in another unit."""
        return replace(self, spelling=Spelling(self.market.listing, unit))


def list_market(market: Market) -> Instrument:
    """Build the instrument of a market."""
    return Instrument(market, Book(market), Spelling(market.listing))
