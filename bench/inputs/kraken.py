"""A busy stretch of Kraken's streams in both versions of its protocol, and what is true of it.

Seven in ten messages are book updates of one side's levels, ten levels a side, each with a right
checksum; two in ten tell of a trade or several, one in ten is a ticker. As on the wire, nobody says
which level was pushed out of the ten, and one that comes back among them is told again. We speak
version 2, as cryptofeed 3 does; cryptofeed 2 speaks version 1, and gets the same events, message
for message, in that. Version 1 does not number trades, so their ids are compared by nobody.
"""

import random
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from bench.inputs.book import Changes, MadeBook, fixed, iso
from bench.inputs.stored import Market, compact, store
from bench.inputs.truth import Seal, Testimony

MESSAGES = 60_000
SEED = 20_261_117
START_MS = 1_790_000_000_000
DEPTH = 10
PAIRS = {
    "BTC": ("XBT", 600_000, 1),
    "ETH": ("ETH", 300_000, 2),
    "XRP": ("XRP", 220_000, 5),
    "ADA": ("ADA", 800_000, 6),
    "LTC": ("LTC", 9_000, 2),
    "DOT": ("DOT", 70_000, 4),
}
"""What version 1 calls the base, the middle price in ticks, and the decimals of a tick."""


class _Frames(NamedTuple):
    """One message, in both versions."""

    v2: str
    v1: str


class _Trade(NamedTuple):
    """One execution, as it is told."""

    price: str
    quantity: str
    side: str
    kind: str


class _Pair:
    """One market, and what has been told of its book."""

    def __init__(self, number: int, base: str, chance: random.Random) -> None:
        older, middle, self._decimals = PAIRS[base]
        self.market = Market(base, "USD", f"{base}/USD", f"{older}/USD")
        self.name = self.market.name
        self._number, self._chance = number, chance
        self.book = MadeBook(chance, middle, 400)
        self.trade_id = number * 1_000_000
        self._told = self._seen()

    def snapshot(self, at_ms: int) -> _Frames:
        bids, asks = self._told
        v1 = {"as": self._rows(asks, at_ms), "bs": self._rows(bids, at_ms)}
        return _Frames(
            self._book_message("snapshot", bids, asks, at_ms),
            compact([self._number, v1, f"book-{DEPTH}", self.market.peers_native]),
        )

    def update(self, at_ms: int) -> _Frames:
        """Change some levels of one side, until one of them is in sight."""
        bids: Changes = {}
        asks: Changes = {}
        while not bids and not asks:
            if self._chance.random() < 0.05:
                self.book.move({}, {})
            else:
                self.book.change_one_side(1 + int(self._chance.expovariate(1 / 1.2)), 4)
            before, self._told = self._told, self._seen()
            bids = _told_anew(before[0], self._told[0], self.book.bids.lots)
            asks = _told_anew(before[1], self._told[1], self.book.asks.lots)
        v1: dict[str, object] = {"c": str(self._checksum())}
        if bids:
            v1 = {"b": self._rows(bids, at_ms), **v1}
        if asks:
            v1 = {"a": self._rows(asks, at_ms), **v1}
        return _Frames(
            self._book_message("update", bids, asks, at_ms),
            compact([self._number, v1, f"book-{DEPTH}", self.market.peers_native]),
        )

    def trades(self, at_ms: int, truth: Testimony) -> _Frames:
        """A trade near the middle, sometimes several."""
        entries, rows = [], []
        for _ in range(1 + int(self._chance.expovariate(1 / 0.5))):
            self.trade_id += 1
            trade = self._some_trade()
            truth.trade(self.name, None, Decimal(trade.price), Decimal(trade.quantity))
            entries.append(
                f'{{"symbol":"{self.market.native}","side":"{trade.side}","price":{trade.price},'
                f'"qty":{trade.quantity},"ord_type":"{trade.kind}","trade_id":{self.trade_id},'
                f'"timestamp":"{iso(at_ms)}"}}'
            )
            at_s = fixed(at_ms * 1000, 6)
            rows.append([trade.price, trade.quantity, at_s, trade.side[0], trade.kind[0], ""])
        return _Frames(
            f'{{"channel":"trade","type":"update","data":[{",".join(entries)}]}}',
            compact([self._number, rows, "trade", self.market.peers_native]),
        )

    def ticker(self, at_ms: int, truth: Testimony) -> _Frames:
        """The best prices, and the day's figures."""
        (bid, bid_lots), (ask, ask_lots) = self.touch()
        truth.ticker(self.name, Decimal(bid), Decimal(ask))
        v1 = {
            "a": [ask, 0, ask_lots],
            "b": [bid, 0, bid_lots],
            "c": [bid, "0.10000000"],
            "v": ["1100.00000000", "2000.50000000"],
            "p": [bid, bid],
            "t": [1000, 2000],
            "l": [bid, bid],
            "h": [ask, ask],
            "o": [bid, bid],
        }
        return _Frames(
            f'{{"channel":"ticker","type":"update","data":[{{"symbol":"{self.market.native}",'
            f'"bid":{bid},"bid_qty":{bid_lots},"ask":{ask},"ask_qty":{ask_lots},"last":{bid},'
            f'"volume":2000.50000000,"vwap":{bid},"low":{bid},"high":{ask},"change":0.1,'
            f'"change_pct":0.01,"timestamp":"{iso(at_ms)}"}}]}}',
            compact([self._number, v1, "ticker", self.market.peers_native]),
        )

    def touch(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The best bid and ask, as they are written."""
        bids, asks = self._told
        return self._level(*next(iter(bids.items()))), self._level(*next(iter(asks.items())))

    def tell_touch(self, truth: Testimony) -> None:
        bid, ask = self.touch()
        truth.touch(self.name, _exact(bid), _exact(ask))

    def tell_book(self, truth: Testimony) -> None:
        bids, asks = ([_exact(self._level(*each)) for each in side.items()] for side in self._told)
        truth.book(self.name, bids, asks)

    def _seen(self) -> tuple[Changes, Changes]:
        return self.book.best_bids(DEPTH), self.book.best_asks(DEPTH)

    def _checksum(self) -> int:
        bids, asks = self._told
        digits = [f"{price}{lots}" for side in (asks, bids) for price, lots in side.items()]
        return crc32("".join(digits).encode())

    def _book_message(self, kind: str, bids: Changes, asks: Changes, at_ms: int) -> str:
        sides = [
            ",".join(
                '{{"price":{},"qty":{}}}'.format(*self._level(*level)) for level in side.items()
            )
            for side in (bids, asks)
        ]
        return (
            f'{{"channel":"book","type":"{kind}","data":[{{"symbol":"{self.market.native}",'
            f'"bids":[{sides[0]}],"asks":[{sides[1]}],"checksum":{self._checksum()},'
            f'"timestamp":"{iso(at_ms)}"}}]}}'
        )

    def _some_trade(self) -> _Trade:
        price = self.book.middle + self._chance.randint(-1, 1)
        lots = self._chance.randint(10**4, 10**9)
        side, kind = self._chance.choice(("buy", "sell")), self._chance.choice(("limit", "market"))
        return _Trade(*self._level(price, lots), side, kind)

    def _rows(self, levels: Changes, at_ms: int) -> list[list[str]]:
        at_s = fixed(at_ms * 1000, 6)
        return [[*self._level(price, lots), at_s] for price, lots in levels.items()]

    def _level(self, price: int, lots: int) -> tuple[str, str]:
        return fixed(price, self._decimals), fixed(lots, 8)


def _told_anew(before: Changes, after: Changes, real: Mapping[int, int]) -> Changes:
    gone: Changes = {price: 0 for price in before if price not in real}
    return gone | {price: lots for price, lots in after.items() if before.get(price) != lots}


def _exact(level: tuple[str, str]) -> tuple[Decimal, Decimal]:
    return Decimal(level[0]), Decimal(level[1])


def make_inputs(folder: Path, messages: int = MESSAGES, seed: int = SEED) -> Seal:
    """Write the messages into a folder, the same bytes for the same seed; what is true of them."""
    chance, truth = random.Random(seed), Testimony()
    pairs = [_Pair(1 + number, base, chance) for number, base in enumerate(PAIRS)]
    frames = [pair.snapshot(START_MS) for pair in pairs]
    for at_ms in range(START_MS + len(pairs), START_MS + messages):
        pair, kind = chance.choice(pairs), chance.random()
        if kind < 0.7:
            frames.append(pair.update(at_ms))
            pair.tell_touch(truth)
        elif kind < 0.9:
            frames.append(pair.trades(at_ms, truth))
        else:
            frames.append(pair.ticker(at_ms, truth))
    for pair in sorted(pairs, key=lambda each: each.name):
        pair.tell_book(truth)
    listed = [pair.market for pair in pairs]
    store(folder, listed, [each.v2 for each in frames], [each.v1 for each in frames])
    return truth.seal()
