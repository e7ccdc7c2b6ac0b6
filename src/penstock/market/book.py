"""An order book: exact, and cheap to keep.

Each side is a dict of levels beside a sorted list of their keys. A key is the price as an integer
at a scale common to the book, so that keys compare and hash fast and "1.10" is the same level as
"1.1"; the level itself stays in the wire's digits. Both lists end with the best price: most changes
happen there, where inserting and deleting move almost nothing.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import islice

from penstock.errors import MalformedLevels
from penstock.market.levels import Level, LevelText

# Prices near the touch repeat, so their integers are remembered; the memory is bounded.
_REMEMBERED_PRICES = 20_000
_ZEROS = frozenset(["0", "0.", *("0." + "0" * decimals for decimals in range(1, 25))])


class OrderBook:
    """Bids and asks, as exact numbers."""

    __slots__ = ("_asks", "_bids", "_prices", "_scale")

    def __init__(self) -> None:
        self._scale = 8
        self._prices: dict[str, int] = {}
        self._bids = _Half(sign=1)
        self._asks = _Half(sign=-1)

    def load(self, bids: Iterable[LevelText], asks: Iterable[LevelText]) -> None:
        """Forget everything and begin from these levels.

        Raises:
            MalformedLevels: a price or quantity is no number. The book is then empty.
        """
        self._bids.clear()
        self._asks.clear()
        self.apply(bids, asks)

    def apply(self, bids: Iterable[LevelText], asks: Iterable[LevelText]) -> None:
        """Set levels to absolute quantities; zero removes, and removing nothing is fine.

        Raises:
            MalformedLevels: a price is no number. The book may then hold part of the change.
        """
        for half, levels in ((self._bids, bids), (self._asks, asks)):
            sign = half.sign
            for level in levels:
                price = self._prices.get(level[0])
                if price is None:
                    price = self._price(level[0])
                if level[1] in _ZEROS:
                    half.remove(price * sign)
                else:
                    half.set(price * sign, level)

    def _price(self, text: str) -> int:
        whole, _, fraction = text.partition(".")
        if not (whole + fraction).isdecimal() or not text.isascii():
            raise MalformedLevels(f"{text[:40]!r} is not a price")
        if len(fraction) > self._scale:
            self._rescale(len(fraction))
        elif len(self._prices) >= _REMEMBERED_PRICES:
            self._prices = {}
        price = int(whole + fraction.ljust(self._scale, "0"))
        self._prices[text] = price
        return price

    def _rescale(self, scale: int) -> None:
        factor: int = 10 ** (scale - self._scale)
        self._scale, self._prices = scale, {}
        self._bids.multiply(factor)
        self._asks.multiply(factor)

    @property
    def best_bid(self) -> Level | None:
        """The highest bid, if there is one."""
        return next(self.bids(), None)

    @property
    def best_ask(self) -> Level | None:
        """The lowest ask, if there is one."""
        return next(self.asks(), None)

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

    __slots__ = ("keys", "levels", "sign")

    def __init__(self, sign: int) -> None:
        self.sign = sign
        self.keys: list[int] = []
        self.levels: dict[int, LevelText] = {}

    def set(self, key: int, level: LevelText) -> None:
        if key not in self.levels:
            self.keys.insert(bisect_left(self.keys, key), key)
        self.levels[key] = level

    def remove(self, key: int) -> None:
        if self.levels.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]

    def clear(self) -> None:
        self.keys.clear()
        self.levels.clear()

    def multiply(self, factor: int) -> None:
        self.keys = [key * factor for key in self.keys]
        self.levels = {key * factor: level for key, level in self.levels.items()}

    def texts(self, depth: int | None) -> list[LevelText]:
        return [self.levels[key] for key in islice(reversed(self.keys), depth)]

    def walk(self, depth: int | None) -> Iterator[Level]:
        for key in islice(reversed(self.keys), depth):
            price, quantity = self.levels[key]
            yield Decimal(price), Decimal(quantity)
