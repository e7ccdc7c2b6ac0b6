"""An order book: exact, and cheap to keep.

Each side is a dict of levels beside a sorted list of their keys. A key is the price as an integer
at a scale common to the book, so that keys compare and hash fast and "1.10" is the same level as
"1.1"; the level itself stays in the wire's digits. Both lists end with the best price: most changes
happen there, where inserting and deleting move almost nothing.
"""

import re
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import islice

from penstock.errors import MalformedLevels
from penstock.market.levels import Level, LevelText

# Prices near the touch repeat, so their keys are remembered; the memory is bounded.
_REMEMBERED_PRICES = 20_000
_LONGEST = 100
"""Digits of a number; none that means anything has as many."""
_as_plain = re.compile(r"[0-9]+(?:\.[0-9]*)?").fullmatch


def _check_quantity(text: str) -> None:
    if _as_plain(text) is None or len(text) > _LONGEST:
        raise MalformedLevels(f"{text[:40]!r} is not a quantity")


class OrderBook:
    """Bids and asks, as exact numbers."""

    __slots__ = ("_asks", "_bids", "_scale")

    def __init__(self) -> None:
        self._scale = 8
        self._bids = _Half(sign=1)
        self._asks = _Half(sign=-1)

    def load(self, bids: Sequence[LevelText], asks: Sequence[LevelText]) -> None:
        """Forget everything and begin from these levels.

        Raises:
            MalformedLevels: a price or quantity is no number. The book is then empty.
        """
        self._bids.clear()
        self._asks.clear()
        for levels in (bids, asks):
            for _, quantity in levels:
                _check_quantity(quantity)
        self.load_plain(bids, asks)

    def load_plain(self, bids: Sequence[LevelText], asks: Sequence[LevelText]) -> None:
        """Begin from levels whose quantities are known to be plain numbers, as an event's are.

        Raises:
            MalformedLevels: a price is no number. The book is then empty.
        """
        self._bids.clear()
        self._asks.clear()
        try:
            for half, levels in ((self._bids, bids), (self._asks, asks)):
                keys = self._keys_of(half, [price for price, _ in levels])
                half.levels = {
                    key: level
                    for key, level in zip(keys, levels, strict=True)
                    if level[1].strip("0.")
                }
                half.keys = sorted(half.levels)
        except MalformedLevels:
            self._bids.clear()
            self._asks.clear()
            raise

    def apply(self, bids: Sequence[LevelText], asks: Sequence[LevelText]) -> None:
        """Set levels to absolute quantities; zero removes, and removing nothing is fine.

        Raises:
            MalformedLevels: a price or quantity is no number. The book may then hold part of the
                change, but nothing that is no number.
        """
        for levels in (bids, asks):
            for _, quantity in levels:
                _check_quantity(quantity)
        self.apply_plain(bids, asks)

    def apply_plain(self, bids: Iterable[LevelText], asks: Iterable[LevelText]) -> None:
        """Apply levels whose quantities are known to be plain numbers, as an event's are.

        Raises:
            MalformedLevels: a price is no number, or a quantity is a lone point. The book may then
                hold part of the change.
        """
        # The hottest loop there is: a method call per level would double what it costs.
        for half, levels in ((self._bids, bids), (self._asks, asks)):
            known, held = half.known, half.levels
            for level in levels:
                price, quantity = level
                key = known.get(price)
                if key is None:
                    key = self._key(half, price)
                    known, held = half.known, half.levels
                if quantity.strip("0."):
                    if key not in held:
                        insort(half.keys, key)
                    held[key] = level
                elif quantity[:1] != "0":  # a lone point has the shape of a number
                    raise MalformedLevels(f"{quantity[:40]!r} is not a quantity")
                elif held.pop(key, None) is not None:
                    del half.keys[bisect_left(half.keys, key)]

    def _keys_of(self, half: "_Half", prices: list[str]) -> list[int]:
        """The keys of a whole side; at once, if all have as many decimals as the book."""
        point = -1 - self._scale
        digits = [price.replace(".", "", 1) for price in prices]
        joined = "".join(digits)
        alike = all(price[point : point + 1] == "." for price in prices)
        if alike and joined.isdecimal() and joined.isascii() and len(prices) < _REMEMBERED_PRICES:
            keys = [half.sign * int(text) for text in digits]
            half.known = dict(zip(prices, keys, strict=True))
            return keys
        for price in prices:  # twice: the first time finds the scale that suits them all
            self._key(half, price)
        return [self._key(half, price) for price in prices]

    def _key(self, half: "_Half", text: str) -> int:
        whole, _, fraction = text.partition(".")
        digits = whole + fraction
        if not digits.isdecimal() or not digits.isascii() or len(text) > _LONGEST:
            raise MalformedLevels(f"{text[:40]!r} is not a price")
        key, decimals = half.sign * int(digits), len(fraction)
        if decimals != self._scale:
            if decimals > self._scale:
                self._rescale(decimals)
            key *= 10 ** (self._scale - decimals)
        if len(half.known) >= _REMEMBERED_PRICES:
            half.known = {}
        half.known[text] = key
        return key

    def _rescale(self, scale: int) -> None:
        factor: int = 10 ** (scale - self._scale)
        self._scale = scale
        self._bids.multiply(factor)
        self._asks.multiply(factor)

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

    def bids(self, depth: int | None = None) -> Iterator[Level]:
        """Bids, highest first."""
        return self._bids.walk(depth)

    def asks(self, depth: int | None = None) -> Iterator[Level]:
        """Asks, lowest first."""
        return self._asks.walk(depth)

    def texts(self, depth: int | None = None) -> tuple[list[LevelText], list[LevelText]]:
        """Bids and asks, best first, in the wire's digits."""
        return self._bids.texts(depth), self._asks.texts(depth)

    def __len__(self) -> int:
        return len(self._bids.keys) + len(self._asks.keys)


class _Half:
    """One side; keys are prices times ``sign``, ascending, the best last."""

    __slots__ = ("keys", "known", "levels", "sign")

    def __init__(self, sign: int) -> None:
        self.sign = sign
        self.known: dict[str, int] = {}
        """Keys by the spellings of prices seen lately."""
        self.keys: list[int] = []
        self.levels: dict[int, LevelText] = {}

    def clear(self) -> None:
        self.keys.clear()
        self.levels.clear()

    def multiply(self, factor: int) -> None:
        self.known = {}
        self.keys = [key * factor for key in self.keys]
        self.levels = {key * factor: level for key, level in self.levels.items()}

    def best(self) -> Level | None:
        if not self.keys:
            return None
        price, quantity = self.levels[self.keys[-1]]
        return Decimal(price), Decimal(quantity)

    def texts(self, depth: int | None) -> list[LevelText]:
        return [self.levels[key] for key in islice(reversed(self.keys), depth)]

    def walk(self, depth: int | None) -> Iterator[Level]:
        for key in islice(reversed(self.keys), depth):
            price, quantity = self.levels[key]
            yield Decimal(price), Decimal(quantity)
