"""A catalogue: the markets an exchange would list, and how an operator names them.

Each exchange has one in its folder, of real markets in miniature. For tests of scale there are also
``sim001_…`` to ``sim999_…``, in the catalogue's own quote, made by rule and nearly all quiet.

Price and quantity together have at most eight decimals, so that every quote amount has an exact
spelling. Markets of one name are the same on every exchange, up to the size of a tick.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

from penstock.errors import UnknownSymbol
from penstock.market.symbol import Symbol
from penstock.simulator.market.market import Listing

BUSIEST, BUSY, MIDDLING, QUIET = 3600, 600, 60, 6
"""Trades a minute."""
_A_FEW = 3


class Row(NamedTuple):
    """One market of a catalogue."""

    base: str
    quote: str
    price: str
    """At listing; its digits set the tick."""
    quantity_decimals: int
    trades_per_minute: int
    listed: str
    """The day."""
    quantity_factor: int = 1
    price_step: int = 1
    """See ``Listing``."""


class Catalogue:
    """Everything an exchange can list."""

    def __init__(self, rows: Sequence[Row], made_in: str) -> None:
        """``made_in`` is the quote of the markets made by rule."""
        self._rows, self._made_in = rows, made_in

    def all(self) -> list[Listing]:
        """Every market that has a name of its own."""
        return list(self._by_slug.values())

    def find(self, names: Iterable[str]) -> list[Listing]:
        """The markets of those names, once each, in order.

        ``all`` is the whole catalogue; no names at all are its first few markets. A name may be a
        slug (``btc_usdt``), the unified form (``BTC/USDT``) or one word (``BTCUSDT``), in either
        case.

        Raises:
            UnknownSymbol: the simulator has no such market.
        """
        found: dict[str, Listing] = {}
        for name in names:
            listings = self._named(name.strip().lower())
            if not listings:
                raise UnknownSymbol("the simulator", name, self._by_slug)
            found.update((slug(listing), listing) for listing in listings)
        return list(found.values()) or self.all()[:_A_FEW]

    def _named(self, name: str) -> list[Listing]:
        if name == "all":
            return self.all()
        if name in self._spellings:
            return [self._spellings[name]]
        match = re.fullmatch(rf"sim(\d{{3}})[_/-]?{self._made_in.lower()}", name)
        number = int(match[1]) if match else 0
        return [_made_by_rule(number, self._made_in)] if number else []

    @cached_property
    def _by_slug(self) -> dict[str, Listing]:
        listings = (_listing(row) for row in self._rows)
        return {slug(listing): listing for listing in listings}

    @cached_property
    def _spellings(self) -> dict[str, Listing]:
        spellings: dict[str, Listing] = {}
        for name, listing in self._by_slug.items():
            base, quote = listing.base.lower(), listing.quote.lower()
            for spelling in (
                name,
                f"{base}_{quote}",
                f"{base}/{quote}",
                f"{base}-{quote}",
                base + quote,
            ):
                spellings[spelling] = listing
        return spellings


def slug(listing: Listing) -> str:
    """The market's name in files, topics and settings: ``btc_usdt``."""
    return Symbol(listing.base, listing.quote).slug


def _listing(row: Row) -> Listing:
    decimals = -int(Decimal(row.price).as_tuple().exponent)
    return Listing(
        base=row.base,
        quote=row.quote,
        price_decimals=decimals,
        quantity_decimals=row.quantity_decimals,
        start_price=int(Decimal(row.price).scaleb(decimals)) // row.price_step,
        trades_per_minute=row.trades_per_minute,
        listed_at_ms=_day_ms(datetime.fromisoformat(row.listed).replace(tzinfo=UTC)),
        quantity_factor=row.quantity_factor,
        price_step=row.price_step,
    )


def _made_by_rule(number: int, quote: str) -> Listing:
    rate = BUSY if number % 100 == 1 else MIDDLING if number % 10 == 1 else QUIET
    return Listing(
        base=f"SIM{number:03}",
        quote=quote,
        price_decimals=4,
        quantity_decimals=2,
        start_price=200_000 + 7_919 * number,
        trades_per_minute=rate,
        listed_at_ms=_day_ms(datetime(2021, 1, 1, tzinfo=UTC) + timedelta(days=number)),
    )


def _day_ms(day: datetime) -> int:
    return int(day.timestamp()) * 1000
