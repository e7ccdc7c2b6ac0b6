"""Compares the levels of two books exactly, as far as both are known."""

from decimal import Decimal

from penstock.books.book import Sides
from penstock.books.known_depth import Ends
from penstock.market.events import BookSnapshot
from penstock.market.levels import LevelText, split_levels

LevelKey = tuple[bool, Decimal]
"""Whether it is a bid, and the price."""
Quantities = dict[LevelKey, Decimal]
NOTHING = Decimal()


def sides_of(snapshot: BookSnapshot) -> Sides:
    """Return a snapshot's levels, best first.

    Raises:
        MalformedLevels: they are not pairs of texts.
    """
    bids, asks = split_levels(snapshot.bids_raw), split_levels(snapshot.asks_raw)
    return sorted(bids, key=_price, reverse=True), sorted(asks, key=_price)


def count_differing(ours: Sides, theirs: Sides, ends: Ends) -> int:
    """Return the number of levels that differ between two books, as far as they are known."""
    return len(differing(quantities(ours, ends), quantities(theirs, ends), NOTHING))


def quantities(sides: Sides, ends: Ends) -> Quantities:
    """Return the quantities of the levels within the ends."""
    bids, asks = ends.known(sides)
    found = {(True, Decimal(price)): Decimal(quantity) for price, quantity in bids}
    found |= {(False, Decimal(price)): Decimal(quantity) for price, quantity in asks}
    return found


def differing(ours: Quantities, theirs: Quantities, step: Decimal) -> set[LevelKey]:
    """Return the prices at which two differ; a missing level has the quantity zero."""
    return {
        each
        for each in ours.keys() | theirs.keys()
        if not alike(ours.get(each, NOTHING), theirs.get(each, NOTHING), step)
    }


def alike(ours: Decimal, theirs: Decimal, step: Decimal) -> bool:
    """Whether two may be equal, with one rounded up or down to a multiple of the step."""
    return ours == theirs or abs(ours - theirs) < step


def _price(level: LevelText) -> Decimal:
    return Decimal(level[0])
