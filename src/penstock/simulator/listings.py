"""The catalogue: markets the simulator can list, and how an operator names them.

The markets are real ones in miniature: several quotes, a base that starts with a digit, one that
is not ASCII, a coin far below a cent; some busy, most quiet, listed on different days. For tests of
scale there are also ``sim001_usdt`` to ``sim999_usdt``, made by rule and nearly all quiet.

Price and quantity together have at most eight decimals, so that every quote amount has an exact
spelling.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache

from penstock.errors import UnknownSymbol
from penstock.market.symbol import Symbol
from penstock.simulator.market import Listing

BUSIEST, BUSY, MIDDLING, QUIET = 3600, 600, 60, 6
"""Trades a minute."""

# base, quote, price at listing (its digits set the tick), quantity decimals, trades a minute, day
_CATALOGUE = (
    ("BTC", "USDT", "60000.00", 5, BUSIEST, "2017-08-17"),
    ("ETH", "USDT", "3000.00", 4, BUSIEST, "2017-08-17"),
    ("BNB", "USDT", "600.000", 3, BUSIEST, "2017-11-06"),
    ("SOL", "USDT", "150.000", 3, BUSY, "2020-08-11"),
    ("XRP", "USDT", "0.500000", 1, BUSY, "2018-05-04"),
    ("ADA", "USDT", "0.450000", 1, MIDDLING, "2018-04-17"),
    ("DOGE", "USDT", "0.120000", 0, MIDDLING, "2019-07-05"),
    ("LTC", "USDT", "80.0000", 3, MIDDLING, "2017-12-13"),
    ("ETH", "BTC", "0.050000", 2, MIDDLING, "2017-08-17"),
    ("BTC", "EUR", "55000.00", 5, MIDDLING, "2020-01-03"),
    ("ETH", "EUR", "2750.00", 4, MIDDLING, "2020-01-03"),
    ("BTC", "FDUSD", "60000.00", 5, MIDDLING, "2023-08-04"),
    ("ETH", "FDUSD", "3000.00", 4, MIDDLING, "2023-08-04"),
    ("BNB", "BTC", "0.010000", 2, QUIET, "2017-08-17"),
    ("LTC", "BTC", "0.001350", 2, QUIET, "2017-08-17"),
    ("LINK", "ETH", "0.005000", 2, QUIET, "2017-09-16"),
    ("BNB", "ETH", "0.200000", 2, QUIET, "2017-08-17"),
    ("XRP", "EUR", "0.450000", 1, QUIET, "2020-01-07"),
    ("1INCH", "USDT", "0.40000", 1, QUIET, "2020-12-25"),
    ("LINK", "USDT", "14.0000", 2, QUIET, "2019-01-16"),
    ("NKN", "USDT", "0.080000", 0, QUIET, "2020-05-26"),
    ("SHIB", "USDT", "0.00001800", 0, QUIET, "2021-05-10"),
    ("SOL", "FDUSD", "150.000", 3, QUIET, "2023-09-13"),
    ("DENT", "USDT", "0.00090000", 0, QUIET, "2024-05-29"),
    ("币安人生", "USDT", "0.15000", 1, QUIET, "2024-10-07"),
)

# Coins so cheap that an ordinary trade is of very many.
_QUANTITY_FACTORS = {"SHIB": 20_000, "DENT": 500}

_MADE_BY_RULE = re.compile(r"sim(\d{3})[_/-]?usdt")


def catalogue() -> list[Listing]:
    """Every market that has a name of its own."""
    return list(_by_slug().values())


def find(names: Iterable[str]) -> list[Listing]:
    """The markets of those names, once each, in order; ``all`` is the whole catalogue.

    A name may be a slug (``btc_usdt``), the unified form (``BTC/USDT``) or the exchange's own
    (``BTCUSDT``), in either case.

    Raises:
        UnknownSymbol: the simulator has no such market.
    """
    found: dict[str, Listing] = {}
    for name in names:
        listings = _named(name.strip().lower())
        if not listings:
            raise UnknownSymbol("the simulator", name, _by_slug())
        found.update((slug(listing), listing) for listing in listings)
    return list(found.values())


def slug(listing: Listing) -> str:
    """The market's name in files, topics and settings: ``btc_usdt``."""
    return Symbol(listing.base, listing.quote).slug


def _named(name: str) -> list[Listing]:
    if name == "all":
        return catalogue()
    if name in _spellings():
        return [_spellings()[name]]
    match = _MADE_BY_RULE.fullmatch(name)
    number = int(match[1]) if match else 0
    return [_made_by_rule(number)] if number else []


@cache
def _by_slug() -> dict[str, Listing]:
    listings = (_listing(*row) for row in _CATALOGUE)
    return {slug(listing): listing for listing in listings}


@cache
def _spellings() -> dict[str, Listing]:
    spellings: dict[str, Listing] = {}
    for name, listing in _by_slug().items():
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


def _listing(
    base: str, quote: str, price: str, quantity_decimals: int, rate: int, listed: str
) -> Listing:
    decimals = -int(Decimal(price).as_tuple().exponent)
    return Listing(
        base=base,
        quote=quote,
        price_decimals=decimals,
        quantity_decimals=quantity_decimals,
        start_price=int(Decimal(price).scaleb(decimals)),
        trades_per_minute=rate,
        listed_at_ms=_day_ms(datetime.fromisoformat(listed).replace(tzinfo=UTC)),
        quantity_factor=_QUANTITY_FACTORS.get(base, 1),
    )


def _made_by_rule(number: int) -> Listing:
    rate = BUSY if number % 100 == 1 else MIDDLING if number % 10 == 1 else QUIET
    return Listing(
        base=f"SIM{number:03}",
        quote="USDT",
        price_decimals=4,
        quantity_decimals=2,
        start_price=200_000 + 7_919 * number,
        trades_per_minute=rate,
        listed_at_ms=_day_ms(datetime(2021, 1, 1, tzinfo=UTC) + timedelta(days=number)),
    )


def _day_ms(day: datetime) -> int:
    return int(day.timestamp()) * 1000
