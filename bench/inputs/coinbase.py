"""A busy stretch of Coinbase's feed in both of its formats, and what is true of it.

Nearly four in five messages are book updates of some levels of either side, the others tell of one
trade each, on six products of about a thousand levels a side. We speak the Exchange API, cryptofeed
Advanced Trade: each gets the same events, message for message, in its own format. There are no
tickers, which cryptofeed 2 does not read. The real Advanced Trade calls an ask an ``offer``;
cryptofeed 2 loses those of a snapshot and cryptofeed 3 takes either word, so here it is ``ask``.
"""

import random
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from bench.inputs.book import Changes, MadeBook, fixed, iso
from bench.inputs.stored import Market, compact, store
from bench.inputs.truth import Level, Seal, Testimony

MESSAGES = 54_000
SEED = 20_261_118
START_MS = 1_790_000_000_000
LEVELS = 1_000
PRODUCTS = {
    "BTC": 6_000_000,
    "ETH": 300_000,
    "SOL": 15_000,
    "LTC": 9_000,
    "AVAX": 2_500,
    "LINK": 1_800,
}
"""The middle price, in ticks of a cent."""


class _Frames(NamedTuple):
    """One message, in both formats."""

    exchange: str
    advanced: str


class _Product:
    """One market."""

    def __init__(self, number: int, base: str, chance: random.Random) -> None:
        self.market = Market(base, "USD", f"{base}-USD", f"{base}-USD")
        self.name = self.market.name
        self._chance = chance
        self.book = MadeBook(chance, PRODUCTS[base], LEVELS)
        self._trade_id = number * 100_000_000

    def snapshot(self, at_ms: int) -> _Frames:
        bids, asks = self.book.best_bids(), self.book.best_asks()
        own = {
            "type": "snapshot",
            "product_id": self.name,
            "asks": [_texts(*level) for level in asks.items()],
            "bids": [_texts(*level) for level in bids.items()],
            "time": iso(at_ms),
        }
        return _Frames(compact(own), self._level2("snapshot", bids, asks, at_ms))

    def update(self, at_ms: int, truth: Testimony) -> _Frames:
        """Change some levels near the touch."""
        bids: Changes = {}
        asks: Changes = {}
        if self._chance.random() < 0.05:
            self.book.move(bids, asks)
        for _ in range(1 + int(self._chance.expovariate(1 / 5))):
            self.book.change(bids, asks, 12)
        changes = [
            [side, *_texts(*level)]
            for side, levels in (("buy", bids), ("sell", asks))
            for level in levels.items()
        ]
        self._chance.shuffle(changes)
        own = {
            "type": "l2update",
            "product_id": self.name,
            "changes": changes,
            "time": iso(at_ms),
        }
        (bid,), (ask,) = self.book.best_bids(1).items(), self.book.best_asks(1).items()
        truth.touch(self.name, _exact(*bid), _exact(*ask))
        return _Frames(compact(own), self._level2("update", bids, asks, at_ms))

    def trade(self, at_ms: int, truth: Testimony) -> _Frames:
        """Somebody trades at the middle."""
        self._trade_id += 1
        price, size = _texts(self.book.middle, self._chance.randint(10**4, 10**9))
        size = size.rstrip("0").rstrip(".")
        truth.trade(self.name, self._trade_id, Decimal(price), Decimal(size))
        makers, takers = self._chance.choice((("buy", "SELL"), ("sell", "BUY")))
        own = {
            "type": "match",
            "trade_id": self._trade_id,
            "maker_order_id": str(UUID(int=self._chance.getrandbits(128))),
            "taker_order_id": str(UUID(int=self._chance.getrandbits(128))),
            "side": makers,
            "size": size,
            "price": price,
            "product_id": self.name,
            "sequence": self._trade_id * 30,
            "time": iso(at_ms),
        }
        advanced = {
            "trade_id": str(self._trade_id),
            "product_id": self.name,
            "price": price,
            "size": size,
            "side": takers,
            "time": iso(at_ms),
        }
        event = {"type": "update", "trades": [advanced]}
        return _Frames(compact(own), _advanced("market_trades", event, at_ms))

    def tell_book(self, truth: Testimony) -> None:
        bids, asks = self.book.best_bids().items(), self.book.best_asks().items()
        truth.book(self.name, [_exact(*each) for each in bids], [_exact(*each) for each in asks])

    def _level2(self, kind: str, bids: Changes, asks: Changes, at_ms: int) -> str:
        updates = []
        for side, levels in (("bid", bids), ("ask", asks)):
            for level in levels.items():
                price, size = _texts(*level)
                updates.append(
                    {
                        "side": side,
                        "event_time": iso(at_ms),
                        "price_level": price,
                        "new_quantity": size,
                    }
                )
        event = {"type": kind, "product_id": self.name, "updates": updates}
        return _advanced("l2_data", event, at_ms)


def _advanced(channel: str, event: object, at_ms: int) -> str:
    return compact(
        {
            "channel": channel,
            "client_id": "",
            "timestamp": iso(at_ms),
            "sequence_num": at_ms - START_MS,
            "events": [event],
        }
    )


def _texts(price: int, lots: int) -> tuple[str, str]:
    return fixed(price, 2), fixed(lots, 8)


def _exact(price: int, lots: int) -> Level:
    price_text, size_text = _texts(price, lots)
    return Decimal(price_text), Decimal(size_text)


def make_inputs(folder: Path, messages: int = MESSAGES, seed: int = SEED) -> Seal:
    """Write the messages into a folder, the same bytes for the same seed; what is true of them."""
    chance, truth = random.Random(seed), Testimony()
    products = [_Product(1 + number, base, chance) for number, base in enumerate(PRODUCTS)]
    # Messages are numbered by their instants, so no two have the same.
    frames = [product.snapshot(START_MS + number) for number, product in enumerate(products)]
    for at_ms in range(START_MS + len(products), START_MS + messages):
        product = chance.choice(products)
        make = product.update if chance.random() < 7 / 9 else product.trade
        frames.append(make(at_ms, truth))
    for product in sorted(products, key=lambda each: each.name):
        product.tell_book(truth)
    listed = [product.market for product in products]
    store(folder, listed, [each.exchange for each in frames], [each.advanced for each in frames])
    return truth.seal()
