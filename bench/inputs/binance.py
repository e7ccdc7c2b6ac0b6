"""A busy stretch of Binance's combined stream, made from a seed, and what is true of it.

Half the messages are book deltas of about eight levels, a quarter best prices, a quarter aggregate
trades, on eight markets of about a thousand levels a side; nothing is missing. Made up: good for
comparing two programs on the same bytes, no claim about live traffic.
"""

import json
import random
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from pathlib import Path

MESSAGES = 60_000
SEED = 20_261_116
LEVELS = 1_000
MOST_LEVELS = 5_000
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
_FRAMES, _SNAPSHOTS = "frames.txt", "snapshots.json"


@dataclass
class _Side:
    """Quantities by price in ticks, and the prices in order."""

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


class _Market:
    """One market: a book that never crosses, and the ids of what happens on it."""

    def __init__(self, native: str, number: int, chance: random.Random) -> None:
        self.native, self._chance = native, chance
        self.middle, self._decimals = MARKETS[native]
        near = range(1, LEVELS + 1)
        self.bids = _Side({self.middle - step: self._lots() for step in near})
        self.asks = _Side({self.middle + step: self._lots() for step in near})
        self.update_id = self._told_id = number * 1_000_000_000
        self.trade_id = number * 100_000_000

    def snapshot(self) -> dict[str, object]:
        bids = [[self._price(p), _text(self.bids.lots[p])] for p in reversed(self.bids.prices)]
        asks = [[self._price(p), _text(self.asks.lots[p])] for p in self.asks.prices]
        return {"lastUpdateId": self.update_id, "bids": bids, "asks": asks}

    def delta(self, at_ms: int) -> tuple[str, dict[str, object]]:
        """Change some levels near the touch."""
        bids: dict[int, int] = {}
        asks: dict[int, int] = {}
        if self._chance.random() < 0.05:
            self._move(bids, asks)
        for _ in range(1 + int(self._chance.expovariate(1 / 9))):
            step = 1 + int(self._chance.expovariate(1 / 12))
            if self._chance.random() < 0.5:
                self._change(self.bids, self.middle - step, bids)
            else:
                self._change(self.asks, self.middle + step, asks)
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
            "b": [[self._price(price), _text(lots)] for price, lots in bids.items()],
            "a": [[self._price(price), _text(lots)] for price, lots in asks.items()],
        }

    def best(self) -> tuple[str, dict[str, object]]:
        """The best prices."""
        bid, ask = self.bids.prices[-1], self.asks.prices[0]
        # Each has an update id of its own, so that each is a record of its own.
        self.update_id += 1
        return "bookTicker", {
            "u": self.update_id,
            "s": self.native,
            "b": self._price(bid),
            "B": _text(self.bids.lots[bid]),
            "a": self._price(ask),
            "A": _text(self.asks.lots[ask]),
        }

    def trade(self, at_ms: int) -> tuple[str, dict[str, object]]:
        """Somebody trades at the middle."""
        self.trade_id += 1
        return "aggTrade", {
            "e": "aggTrade",
            "E": at_ms,
            "s": self.native,
            "a": self.trade_id,
            "p": self._price(self.middle),
            "q": _text(self._lots()),
            "f": self.trade_id,
            "l": self.trade_id,
            "T": at_ms - 1,
            "m": self._chance.random() < 0.5,
            "M": True,
        }

    def _move(self, bids: dict[int, int], asks: dict[int, int]) -> None:
        """Move the middle by a tick; what it runs over is gone."""
        self.middle += self._chance.choice((-1, 1))
        while self.bids.prices[-1] >= self.middle:
            bids[self.bids.prices[-1]] = 0
            self.bids.remove(self.bids.prices[-1])
        while self.asks.prices[0] <= self.middle:
            asks[self.asks.prices[0]] = 0
            self.asks.remove(self.asks.prices[0])

    def _change(self, side: _Side, price: int, changes: dict[int, int]) -> None:
        known = price in side.lots
        if known and len(side.prices) > 50 and self._chance.random() < 0.35:
            changes[price] = 0
            side.remove(price)
        elif known or len(side.prices) < MOST_LEVELS:
            changes[price] = self._lots()
            side.set(price, changes[price])

    def _lots(self) -> int:
        return self._chance.randint(100_000, 5_000_000_000)

    def _price(self, ticks: int) -> str:
        return _text(ticks * 10 ** (8 - self._decimals))


def _text(units: int) -> str:
    """Hundred-millionths as Binance writes them: always eight decimals."""
    return f"{units // 100_000_000}.{units % 100_000_000:08d}"


@dataclass(frozen=True)
class Inputs:
    """Where the messages and snapshots are, and what they hold."""

    folder: Path

    def frames(self) -> list[bytes]:
        """The messages, in order."""
        return (self.folder / _FRAMES).read_bytes().splitlines()

    def snapshots(self) -> dict[str, str]:
        """The body of each market's snapshot, from before the first message."""
        bodies: dict[str, str] = json.loads((self.folder / _SNAPSHOTS).read_text())
        return bodies


def make_inputs(folder: Path, messages: int = MESSAGES, seed: int = SEED) -> Inputs:
    """Write messages and snapshots into a folder: the same bytes for the same seed."""
    chance = random.Random(seed)
    markets = [_Market(native, 1 + n, chance) for n, native in enumerate(MARKETS)]
    snapshots = {market.native: _compact(market.snapshot()) for market in markets}
    frames = []
    for at_ms in range(START_MS, START_MS + messages):
        market, kind = chance.choice(markets), chance.random()
        if kind < 0.5:
            name, data = market.delta(at_ms)
        elif kind < 0.75:
            name, data = market.best()
        else:
            name, data = market.trade(at_ms)
        frames.append(_compact({"stream": f"{market.native.lower()}@{name}", "data": data}))
    (folder / _FRAMES).write_text("\n".join(frames))
    (folder / _SNAPSHOTS).write_text(json.dumps(snapshots))
    return Inputs(folder)


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
