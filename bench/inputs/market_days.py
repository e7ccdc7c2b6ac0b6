"""Generated trades and book changes of one market, the same for both sides of a comparison.

Prices walk in ticks of 0.01, quantities have five digits, ids and times rise: what Binance sends
for a busy market. Pure arithmetic by a seed, so nothing is stored between runs.
"""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

START_NS = 1_760_000_000_000_000_000
FIRST_ID = 5_000_000_000
_MEAN_GAP_NS = 2_000_000
_LEVELS = 8
"""The changed levels of one book change."""


class MadeTrade(NamedTuple):
    """One trade."""

    id: int
    at_ns: int
    received_ns: int
    cents: int
    """The price, in hundredths."""
    units: int
    """The quantity, in hundred-thousandths."""
    is_buy: bool


class MadeChange(NamedTuple):
    """One book change: levels as (hundredths, hundred-thousandths)."""

    first_id: int
    final_id: int
    at_ns: int
    received_ns: int
    bids: list[tuple[int, int]]
    asks: list[tuple[int, int]]


def trades(count: int, seed: int = 1) -> Iterator[MadeTrade]:
    """So many trades, in order."""
    draw = Random(seed)
    at_ns = received_ns = START_NS
    cents = 6_000_000
    for index in range(count):
        at_ns += draw.randrange(2 * _MEAN_GAP_NS) // 1_000_000 * 1_000_000
        received_ns = max(received_ns + 1, at_ns + 3_000_000 + draw.randrange(1_000_000))
        cents += draw.randrange(-5, 6)
        yield MadeTrade(
            FIRST_ID + index,
            at_ns,
            received_ns,
            cents,
            1 + draw.randrange(200_000),
            draw.random() < 0.5,
        )


def changes(count: int, seed: int = 2) -> Iterator[MadeChange]:
    """So many book changes, in order."""
    draw = Random(seed)
    at_ns, cents, update_id = START_NS, 6_000_000, FIRST_ID
    for _ in range(count):
        at_ns += 100_000_000
        cents += draw.randrange(-5, 6)
        first_id, update_id = update_id + 1, update_id + _LEVELS
        sides = [
            [(cents + sign * draw.randrange(1, 500), draw.randrange(400_000)) for _ in range(4)]
            for sign in (-1, 1)
        ]
        received_ns = at_ns + 3_000_000 + draw.randrange(1_000_000)
        yield MadeChange(first_id, update_id, at_ns, received_ns, *sides)


def price_text(cents: int) -> str:
    """A price as Binance sends it."""
    return f"{cents // 100}.{cents % 100:02}000000"


def quantity_text(units: int) -> str:
    """A quantity as Binance sends it."""
    return f"{units // 100_000}.{units % 100_000:05}000"
