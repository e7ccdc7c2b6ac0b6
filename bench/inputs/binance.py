"""A busy stretch of Binance's combined stream, made from a seed, and what is true of it.

Half the messages are book deltas of about eight levels, a quarter best prices, a quarter aggregate
trades, on eight markets of about a thousand levels a side; nothing is missing. Made up: good for
comparing two programs on the same bytes, no claim about live traffic.
"""

import random
from collections.abc import Iterator, Sequence
from itertools import count, cycle, islice
from pathlib import Path

from bench.inputs.book import Changes, MadeBook, fixed
from bench.inputs.stored import Inputs, Market, compact, store

MESSAGES = 60_000
SEED = 20_261_116
LEVELS = 1_000
START_MS = 1_790_000_000_000
MARKETS = {
    "BTCUSDT": (6_000_000, 2),
    "ETHUSDT": (300_000, 2),
    "BNBUSDT": (65_000, 2),
    "SOLUSDT": (15_000, 2),
    "XRPUSDT": (22_000, 4),
    "ADAUSDT": (8_000, 4),
    "DOGEUSDT": (19_000, 5),
    "LTCUSDT": (9_000, 2),
}
"""Middle price in ticks, and the decimals of a tick."""


class _Market:
    """One market: a book that never crosses, and the ids of what happens on it."""

    def __init__(
        self, native: str, number: int, chance: random.Random, shape: tuple[int, int]
    ) -> None:
        self.native, self._chance = native, chance
        middle, self._decimals = shape
        self.book = MadeBook(chance, middle, LEVELS)
        self.update_id = self._told_id = number * 1_000_000_000
        self.trade_id = number * 100_000_000

    def snapshot(self) -> dict[str, object]:
        return {
            "lastUpdateId": self.update_id,
            "bids": self._levels(self.book.best_bids()),
            "asks": self._levels(self.book.best_asks()),
        }

    def delta(self, at_ms: int) -> tuple[str, dict[str, object]]:
        """Change some levels near the touch."""
        bids: Changes = {}
        asks: Changes = {}
        if self._chance.random() < 0.05:
            self.book.move(bids, asks)
        for _ in range(1 + int(self._chance.expovariate(1 / 9))):
            self.book.change(bids, asks, 12)
        # A delta tells of everything since the one before, best prices in between included.
        first_id = self._told_id + 1
        self.update_id += max(1, len(bids) + len(asks))
        self._told_id = self.update_id
        return "depth@100ms", {
            "e": "depthUpdate",
            "E": at_ms,
            "s": self.native,
            "U": first_id,
            "u": self.update_id,
            "b": self._levels(bids),
            "a": self._levels(asks),
        }

    def best(self) -> tuple[str, dict[str, object]]:
        """The best prices."""
        (bid, bid_lots), *_ = self.book.best_bids(1).items()
        (ask, ask_lots), *_ = self.book.best_asks(1).items()
        # Each has an update id of its own, so that each is a record of its own.
        self.update_id += 1
        return "bookTicker", {
            "u": self.update_id,
            "s": self.native,
            "b": self._price(bid),
            "B": _text(bid_lots),
            "a": self._price(ask),
            "A": _text(ask_lots),
        }

    def trade(self, at_ms: int) -> tuple[str, dict[str, object]]:
        """Somebody trades at the middle."""
        self.trade_id += 1
        return "aggTrade", {
            "e": "aggTrade",
            "E": at_ms,
            "s": self.native,
            "a": self.trade_id,
            "p": self._price(self.book.middle),
            "q": _text(self.book.some_lots()),
            "f": self.trade_id,
            "l": self.trade_id,
            "T": at_ms - 1,
            "m": self._chance.random() < 0.5,
            "M": True,
        }

    def _levels(self, levels: Changes) -> list[list[str]]:
        return [[self._price(price), _text(lots)] for price, lots in levels.items()]

    def _price(self, ticks: int) -> str:
        return _text(ticks * 10 ** (8 - self._decimals))


def _text(units: int) -> str:
    """Hundred-millionths as Binance writes them: always eight decimals."""
    return fixed(units, 8)


def make_inputs(
    folder: Path, messages: int = MESSAGES, seed: int = SEED, markets: int = len(MARKETS)
) -> Inputs:
    """Write messages and snapshots into a folder: the same bytes for the same seed.

    Where more markets are wanted than have names, the rest are made like the first ones.
    """
    chance = random.Random(seed)
    shapes = dict(islice(_endless_markets(), markets))
    made = [_Market(native, 1 + n, chance, shapes[native]) for n, native in enumerate(shapes)]
    return _store(folder, made, messages, chance)


def _endless_markets() -> Iterator[tuple[str, tuple[int, int]]]:
    yield from MARKETS.items()
    for number, shape in zip(count(1), cycle(MARKETS.values()), strict=False):
        yield f"M{number}USDT", shape


def _store(
    folder: Path, markets: Sequence[_Market], messages: int, chance: random.Random
) -> Inputs:
    snapshots = {market.native: compact(market.snapshot()) for market in markets}
    frames = []
    for at_ms in range(START_MS, START_MS + messages):
        market, kind = chance.choice(markets), chance.random()
        if kind < 0.5:
            name, data = market.delta(at_ms)
        elif kind < 0.75:
            name, data = market.best()
        else:
            name, data = market.trade(at_ms)
        frames.append(compact({"stream": f"{market.native.lower()}@{name}", "data": data}))
    names = [market.native for market in markets]
    listed = [Market(name.removesuffix("USDT"), "USDT", name, name) for name in names]
    return store(folder, listed, frames, snapshots=snapshots)
