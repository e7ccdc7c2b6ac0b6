"""A busy stretch of Upbit's streams, and what is true of it.

A little more than half the messages are whole books of fifteen levels a side, the others tell of
one trade each, on six markets; both sides get the same bytes, in the short spelling that both ask
for. There are no tickers: cryptofeed 2 does not read them, and cryptofeed 3 makes its own of books.
"""

import random
from decimal import Decimal
from pathlib import Path

from bench.inputs.book import MadeBook
from bench.inputs.stored import Market, compact, store
from bench.inputs.truth import Level, Seal, Testimony

MESSAGES = 54_000
SEED = 20_261_119
START_MS = 1_790_000_000_000
DEPTH = 15
MARKETS = {"BTC": 90_000, "ETH": 4_500, "XRP": 3_000, "ADA": 1_100, "DOGE": 2_600, "SOL": 21_000}
"""The middle price in ticks: a thousand won for the first, one won for the others."""


class _Market:
    """One market."""

    def __init__(self, base: str, chance: random.Random) -> None:
        self.market = Market(base, "KRW", f"KRW-{base}", f"KRW-{base}")
        self.name = self.market.name
        self._chance = chance
        self._tick = 1000 if base == "BTC" else 1
        self.book = MadeBook(chance, MARKETS[base], 200)

    def orderbook(self, at_ms: int, truth: Testimony) -> str:
        """The best levels, after some of the book's have changed."""
        if self._chance.random() < 0.05:
            self.book.move({}, {})
        for _ in range(3):
            self.book.change({}, {}, 12)
        bids, asks = self.seen()
        units = [
            {"ap": ask, "bp": bid, "as": ask_size, "bs": bid_size}
            for (bid, bid_size), (ask, ask_size) in zip(bids, asks, strict=True)
        ]
        truth.touch(self.name, _exact(bids[0]), _exact(asks[0]))
        return compact(
            {
                "ty": "orderbook",
                "cd": self.market.native,
                "tms": at_ms,
                "tas": round(sum(size for _, size in asks), 8),
                "tbs": round(sum(size for _, size in bids), 8),
                "obu": units,
                "st": "REALTIME",
            }
        )

    def trade(self, at_ms: int, trade_id: int, truth: Testimony) -> str:
        """Somebody trades at the middle."""
        price, size = self._level(self.book.middle, self._chance.randint(10**4, 10**9))
        truth.trade(self.name, trade_id, *_exact((price, size)))
        return compact(
            {
                "ty": "trade",
                "cd": self.market.native,
                "tms": at_ms,
                "td": "2026-09-21",
                "ttm": "14:13:20",
                "ttms": at_ms - 10,
                "tp": price,
                "tv": size,
                "ab": self._chance.choice(("BID", "ASK")),
                "pcp": price,
                "c": "RISE",
                "cp": 4.0,
                "sid": trade_id,
                "st": "REALTIME",
            }
        )

    def seen(self) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
        """Bids and asks as they are told, best first."""
        bids, asks = self.book.best_bids(DEPTH).items(), self.book.best_asks(DEPTH).items()
        return [self._level(*each) for each in bids], [self._level(*each) for each in asks]

    def _level(self, price: int, lots: int) -> tuple[float, float]:
        # The exchange writes doubles, in their shortest spelling.
        return float(price * self._tick), lots / 10**8


def _exact(level: tuple[float, float]) -> Level:
    """What is written, which is not what the doubles are."""
    price, size = level
    return Decimal(repr(price)), Decimal(repr(size))


def make_inputs(folder: Path, messages: int = MESSAGES, seed: int = SEED) -> Seal:
    """Write the messages into a folder, the same bytes for the same seed; what is true of them."""
    chance, truth = random.Random(seed), Testimony()
    markets = [_Market(base, chance) for base in MARKETS]
    # Each market's first: books are compared in the end, all of them.
    frames = [market.orderbook(START_MS, truth) for market in markets]
    for at_ms in range(START_MS + len(markets), START_MS + messages):
        market = chance.choice(markets)
        if chance.random() < 5 / 9:
            frames.append(market.orderbook(at_ms, truth))
        else:
            frames.append(market.trade(at_ms, at_ms * 1000 + 1, truth))
    for market in sorted(markets, key=lambda each: each.name):
        bids, asks = market.seen()
        truth.book(market.name, map(_exact, bids), map(_exact, asks))
    store(folder, [market.market for market in markets], frames)
    return truth.seal()
