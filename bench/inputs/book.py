"""A made-up order book that changes near its touch and never crosses: what inputs are made of."""

import random
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from datetime import UTC, datetime

MOST_LEVELS = 5_000
FEWEST_LEVELS = 50

Changes = dict[int, int]
"""Lots by price in ticks; zero where the level is gone."""


@dataclass
class MadeSide:
    """Lots by price in ticks, and the prices in order."""

    lots: dict[int, int]
    prices: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.prices = sorted(self.lots)

    def set(self, price: int, lots: int) -> None:
        if price not in self.lots:
            insort(self.prices, price)
        self.lots[price] = lots

    def remove(self, price: int) -> None:
        del self.lots[price]
        del self.prices[bisect_left(self.prices, price)]


class MadeBook:
    """Both sides around a middle where nobody stands."""

    def __init__(self, chance: random.Random, middle: int, levels: int) -> None:
        self._chance, self.middle = chance, middle
        near = range(1, levels + 1)
        self.bids = MadeSide({middle - step: self.some_lots() for step in near})
        self.asks = MadeSide({middle + step: self.some_lots() for step in near})

    def move(self, bids: Changes, asks: Changes) -> None:
        """Move the middle by a tick; what it runs over is gone."""
        self.middle += self._chance.choice((-1, 1))
        while self.bids.prices[-1] >= self.middle:
            bids[self.bids.prices[-1]] = 0
            self.bids.remove(self.bids.prices[-1])
        while self.asks.prices[0] <= self.middle:
            asks[self.asks.prices[0]] = 0
            self.asks.remove(self.asks.prices[0])

    def change(self, bids: Changes, asks: Changes, spread: float) -> None:
        """Change a level of either side, so many ticks off the middle on average."""
        step = 1 + int(self._chance.expovariate(1 / spread))
        if self._chance.random() < 0.5:
            self._change(self.bids, self.middle - step, bids)
        else:
            self._change(self.asks, self.middle + step, asks)

    def change_one_side(self, count: int, spread: float) -> None:
        """Change some levels, all bids or all asks."""
        sign, side = self._chance.choice(((-1, self.bids), (1, self.asks)))
        for _ in range(count):
            step = 1 + int(self._chance.expovariate(1 / spread))
            self._change(side, self.middle + sign * step, {})

    def best_bids(self, count: int | None = None) -> Changes:
        """The best bids, the best first."""
        prices = reversed(self.bids.prices[-count:] if count else self.bids.prices)
        return {price: self.bids.lots[price] for price in prices}

    def best_asks(self, count: int | None = None) -> Changes:
        """The best asks, the best first."""
        return {price: self.asks.lots[price] for price in self.asks.prices[:count]}

    def some_lots(self) -> int:
        return self._chance.randint(100_000, 5_000_000_000)

    def _change(self, side: MadeSide, price: int, changes: Changes) -> None:
        known = price in side.lots
        if known and len(side.prices) > FEWEST_LEVELS and self._chance.random() < 0.35:
            changes[price] = 0
            side.remove(price)
        elif known or len(side.prices) < MOST_LEVELS:
            changes[price] = self.some_lots()
            side.set(price, changes[price])


def fixed(units: int, decimals: int) -> str:
    """So many units of the last decimal, with all decimals written."""
    digits = str(units).rjust(decimals + 1, "0")
    return f"{digits[:-decimals]}.{digits[-decimals:]}"


def iso(at_ms: int) -> str:
    """An instant as exchanges write it, with microseconds."""
    at = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}000Z"
