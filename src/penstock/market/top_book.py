"""The top of a book: so many levels a side as the exchange tells of, and no more.

Where an exchange streams the best levels alone, it does not say when one is pushed out of sight, so
whoever keeps the book has to forget it: a change that came to it out of sight was never told. Each
side is a dict of levels beside a sorted list of their keys, the best last; a key is the price as an
integer at a scale common to the book, and the level stays in the wire's digits, which checksums are
made of. What the best levels of a side contribute to a checksum is remembered until one of them
changes, and so is what each of them does.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from decimal import Decimal
from math import inf
from typing import NamedTuple

from penstock.errors import MalformedLevels
from penstock.market.levels import Level, LevelText

# Prices near the touch repeat, so their keys are remembered; the memory is bounded.
_REMEMBERED_PRICES = 10_000
_LONGEST = 100
"""Digits of a number; none that means anything has as many."""


class Checksum(NamedTuple):
    """How an exchange's checksum of a book is made."""

    levels: int
    """So many of the best a side count."""
    spell: Callable[[LevelText], str]
    """What a level contributes."""
    of: Callable[[str, str], int]
    """The checksum of what all bids contribute, best first, and all asks."""


class TopBook:
    """Bids and asks, at most ``depth`` of each. See ``OrderBook`` for a whole one."""

    __slots__ = ("_asks", "_bids", "_checksum", "_depth", "_scale")

    def __init__(self, depth: int, checksum: Checksum | None = None) -> None:
        self._depth, self._checksum = depth, checksum
        self._scale = 8
        self._bids = _Side(sign=1)
        self._asks = _Side(sign=-1)

    def load_plain(self, bids: Sequence[LevelText], asks: Sequence[LevelText]) -> None:
        """Begin from levels whose quantities are known to be plain numbers, as an event's are.

        Raises:
            MalformedLevels: a price is no number. The book is then empty.
        """
        self._bids.clear()
        self._asks.clear()
        try:
            keys = [self._keys(bids), self._keys(asks)]
            # Asks may have turned out to need more decimals than bids were given.
            keys[0] = self._keys(bids)
        except MalformedLevels:
            self._bids.clear()
            self._asks.clear()
            raise
        self._bids.load(keys[0], bids, self._depth)
        self._asks.load(keys[1], asks, self._depth)

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
                side.spelled.pop(key, None)
                if key >= side.lowest_counted:
                    side.contribution = None
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

    def checksum(self) -> int | None:
        """What the exchange's checksum of this book must be; None if there is no such thing."""
        rule = self._checksum
        if rule is None:
            return None
        bids, asks = self._bids, self._asks
        return rule.of(
            bids.contribution if bids.contribution is not None else bids.contribute(rule),
            asks.contribution if asks.contribution is not None else asks.contribute(rule),
        )

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

    def _keys(self, levels: Sequence[LevelText]) -> list[int]:
        """The prices of a whole side as integers; at once, if all have as many decimals."""
        prices = [price for price, _ in levels]
        decimals = len(prices[0].partition(".")[2]) if prices else 0
        point = -1 - decimals
        alike = decimals and all(price[point : point + 1] == "." for price in prices)
        digits = [price.replace(".", "", 1) for price in prices]
        joined = "".join(digits)
        short = max(map(len, prices), default=0) <= _LONGEST
        if alike and short and joined.isdecimal() and joined.isascii():
            self._make_room_for(decimals)
            factor: int = 10 ** (self._scale - decimals)
            return [int(text) * factor for text in digits]
        for price in prices:  # twice: the first time finds the scale that suits them all
            self._number(price)
        return [self._number(price) for price in prices]

    def _key(self, side: "_Side", text: str) -> int:
        key = side.sign * self._number(text)
        if len(side.known) >= _REMEMBERED_PRICES:
            side.known.clear()
        side.known[text] = key
        return key

    def _number(self, text: str) -> int:
        whole, _, fraction = text.partition(".")
        digits = whole + fraction
        if not digits.isdecimal() or not digits.isascii() or len(text) > _LONGEST:
            raise MalformedLevels(f"{text[:40]!r} is not a price")
        self._make_room_for(len(fraction))
        number: int = int(digits) * 10 ** (self._scale - len(fraction))
        return number

    def _make_room_for(self, decimals: int) -> None:
        if decimals > self._scale:
            factor = 10 ** (decimals - self._scale)
            self._scale = decimals
            self._bids.multiply(factor)
            self._asks.multiply(factor)


class _Side:
    """One side; keys are prices times ``sign``, ascending, the best last."""

    __slots__ = ("contribution", "keys", "known", "levels", "lowest_counted", "sign", "spelled")

    def __init__(self, sign: int) -> None:
        self.sign = sign
        self.known: dict[str, int] = {}
        """Keys by the spellings of prices seen lately."""
        self.keys: list[int] = []
        self.levels: dict[int, LevelText] = {}
        self.clear()

    def clear(self) -> None:
        self.keys.clear()
        self.levels.clear()
        self.spelled: dict[int, str] = {}
        """What levels contribute to a checksum, as far as it was asked for."""
        self.contribution: str | None = None
        self.lowest_counted: float = -inf
        """Changes of keys below do not change what the side contributes."""

    def load(self, numbers: Sequence[int], levels: Sequence[LevelText], depth: int) -> None:
        held = {self.sign * number: level for number, level in zip(numbers, levels, strict=True)}
        real = [key for key, (_, quantity) in held.items() if quantity.strip("0.")]
        self.keys = sorted(real)[-depth:]
        self.levels = {key: held[key] for key in self.keys}

    def contribute(self, rule: Checksum) -> str:
        counted, spelled = self.keys[: -rule.levels - 1 : -1], self.spelled
        for key in counted:
            if key not in spelled:
                spelled[key] = rule.spell(self.levels[key])
        if len(spelled) > _REMEMBERED_PRICES:
            self.spelled = {key: spelled[key] for key in counted}
        self.lowest_counted = counted[-1] if len(counted) == rule.levels else -inf
        self.contribution = "".join([spelled[key] for key in counted])
        return self.contribution

    def best(self) -> Level | None:
        if not self.keys:
            return None
        price, quantity = self.levels[self.keys[-1]]
        return Decimal(price), Decimal(quantity)

    def multiply(self, factor: int) -> None:
        self.known.clear()
        self.keys[:] = [key * factor for key in self.keys]
        self.levels = {key * factor: level for key, level in self.levels.items()}
        self.spelled.clear()
        self.contribution, self.lowest_counted = None, -inf
