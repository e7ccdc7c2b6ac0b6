"""The top of a book: so many levels a side as the exchange tells of, and no more.

Where an exchange streams the best levels alone, it does not say when one is pushed out of sight, so
whoever keeps the book has to forget it: a change that came to it out of sight was never told. Each
side is a dict of levels beside a sorted list of their keys, the best last; a key is the price as an
integer at a scale common to the book, and the level stays in the wire's digits, which checksums are
made of.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from decimal import Decimal

from penstock.errors import MalformedLevels
from penstock.market.levels import Level, LevelText

# Prices near the touch repeat, so their keys are remembered; the memory is bounded.
_REMEMBERED_PRICES = 10_000
_LONGEST = 100
"""Digits of a number; none that means anything has as many."""


class TopBook:
    """Bids and asks, at most ``depth`` of each. See ``OrderBook`` for a whole one."""

    __slots__ = ("_asks", "_bids", "_depth", "_scale")

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._scale = 8
        self._bids = _Side(sign=1)
        self._asks = _Side(sign=-1)

    def load_plain(self, bids: Sequence[LevelText], asks: Sequence[LevelText]) -> None:
        """Begin from levels whose quantities are known to be plain numbers, as an event's are.

        Raises:
            MalformedLevels: a price is no number. The book is then empty.
        """
        for side in (self._bids, self._asks):
            side.keys.clear()
            side.levels.clear()
        try:
            self.apply_plain(bids, asks)
        except MalformedLevels:
            self._bids, self._asks = _Side(sign=1), _Side(sign=-1)
            raise

    def apply_plain(self, bids: Sequence[LevelText], asks: Sequence[LevelText]) -> None:
        """Set levels, in order, to absolute quantities; zero removes. Then forget what is too deep.

        Raises:
            MalformedLevels: a price is no number. The book may then hold part of the change.
        """
        depth = self._depth
        for side, levels in ((self._bids, bids), (self._asks, asks)):
            for level in levels:
                price, quantity = level
                key = side.known.get(price)
                if key is None:
                    key = self._key(side, price)
                if quantity.strip("0."):
                    if key not in side.levels:
                        insort(side.keys, key)
                    side.levels[key] = level
                elif side.levels.pop(key, None) is not None:
                    del side.keys[bisect_left(side.keys, key)]
            if len(side.keys) > depth:
                for key in side.keys[:-depth]:
                    del side.levels[key]
                del side.keys[:-depth]

    @property
    def best_bid(self) -> Level | None:
        """The highest bid, if there is one."""
        return self._bids.best()

    @property
    def best_ask(self) -> Level | None:
        """The lowest ask, if there is one."""
        return self._asks.best()

    def crossed(self) -> bool:
        """Whether somebody bids as much as somebody asks: never true of a right book."""
        bids, asks = self._bids.keys, self._asks.keys
        return bool(bids and asks and bids[-1] >= -asks[-1])

    def texts(self, depth: int | None = None) -> tuple[list[LevelText], list[LevelText]]:
        """Bids and asks, best first, in the wire's digits."""
        stop = None if depth is None else -depth - 1
        bids, asks = self._bids, self._asks
        return (
            [bids.levels[key] for key in bids.keys[:stop:-1]],
            [asks.levels[key] for key in asks.keys[:stop:-1]],
        )

    def __len__(self) -> int:
        return len(self._bids.keys) + len(self._asks.keys)

    def _key(self, side: "_Side", text: str) -> int:
        whole, _, fraction = text.partition(".")
        digits = whole + fraction
        if not digits.isdecimal() or not digits.isascii() or len(text) > _LONGEST:
            raise MalformedLevels(f"{text[:40]!r} is not a price")
        if len(fraction) > self._scale:
            factor = 10 ** (len(fraction) - self._scale)
            self._scale = len(fraction)
            self._bids.multiply(factor)
            self._asks.multiply(factor)
        if len(side.known) >= _REMEMBERED_PRICES:
            side.known.clear()
        key: int = side.sign * int(digits) * 10 ** (self._scale - len(fraction))
        side.known[text] = key
        return key


class _Side:
    """One side; keys are prices times ``sign``, ascending, the best last."""

    __slots__ = ("keys", "known", "levels", "sign")

    def __init__(self, sign: int) -> None:
        self.sign = sign
        self.known: dict[str, int] = {}
        """Keys by the spellings of prices seen lately."""
        self.keys: list[int] = []
        self.levels: dict[int, LevelText] = {}

    def best(self) -> Level | None:
        if not self.keys:
            return None
        price, quantity = self.levels[self.keys[-1]]
        return Decimal(price), Decimal(quantity)

    def multiply(self, factor: int) -> None:
        self.known.clear()
        self.keys[:] = [key * factor for key in self.keys]
        self.levels = {key * factor: level for key, level in self.levels.items()}
