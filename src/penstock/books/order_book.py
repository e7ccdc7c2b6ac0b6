"""An order book with exact numbers, to which deltas are applied cheaply.

Each side is a dict of quantities by the price's text, so that a delta is applied by one update of a
dict. A removed level stays in the dict with quantity zero and is skipped when read: levels near the
touch come and go, and one that comes back then costs no more than any other change. Only a price
that is not in the dict needs extra work. It gets a key, the price as an integer at a scale common
to the book, and is inserted into the sorted list of keys, which ends with the best price. By their
keys "1.1" and "1.10" are one level, which has the spelling that came last.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import islice
from operator import itemgetter

from msgspec import Raw

from penstock.errors import MalformedLevels
from penstock.market.levels import Level, LevelText, split_levels
from penstock.market.numbers import is_plain

_LONGEST = 100
"""The most digits of a number; no real one has as many."""
_SPARE = 250
"""Removed levels a side may hold before a sweep, or a quarter of its levels if that is more."""


def _check_quantities(*sides: Sequence[LevelText]) -> None:
    for levels in sides:
        for _, text in levels:
            if not is_plain(text) or len(text) > _LONGEST:
                raise MalformedLevels(f"{text[:40]!r} is not a quantity")


class OrderBook:
    """Bids and asks, as exact numbers."""

    __slots__ = ("_asks", "_bids", "_may_cross", "_scale")

    def __init__(self) -> None:
        self._scale = 8
        self._may_cross = False
        """Whether there were new prices since a check found that it is not crossed."""
        self._bids = _Half(sign=1)
        self._asks = _Half(sign=-1)

    def load(self, bids: Sequence[LevelText], asks: Sequence[LevelText]) -> None:
        """Replace the book by these levels.

        Raises:
            MalformedLevels: a price or quantity is no number. The book is then empty.
        """
        self._clear()
        _check_quantities(bids, asks)
        self.load_plain(bids, asks)

    def load_plain(self, bids: Sequence[LevelText], asks: Sequence[LevelText]) -> None:
        """Load levels whose quantities are known to be plain numbers, as an event's are.

        Raises:
            MalformedLevels: a price is no number. The book is then empty.
        """
        self._clear()
        self._may_cross = True
        try:
            for half, levels in ((self._bids, bids), (self._asks, asks)):
                half.load(self._keys([price for price, _ in levels], half.sign), levels)
        except MalformedLevels:
            self._clear()
            raise

    def apply(self, bids: Sequence[LevelText], asks: Sequence[LevelText]) -> None:
        """Set levels to absolute quantities; zero removes, also a level that does not exist.

        Raises:
            MalformedLevels: a price or quantity is no number. The book may then hold part of the
                change, but nothing that is no number.
        """
        _check_quantities(bids, asks)
        self.apply_plain(bids, asks)

    def apply_plain(self, bids: Sequence[LevelText], asks: Sequence[LevelText]) -> None:
        """Apply levels whose quantities are known to be plain numbers, as an event's are.

        Raises:
            MalformedLevels: a price is no number. The book may then hold part of the change, but
                nothing that is no number.
        """
        # A loop over both sides, or a method call for each, would cost more than the update itself.
        quantities = self._bids.quantities
        known = len(quantities)
        quantities |= bids
        if len(quantities) != known:
            self._admit(self._bids, known, bids)
        quantities = self._asks.quantities
        known = len(quantities)
        quantities |= asks
        if len(quantities) != known:
            self._admit(self._asks, known, asks)

    def load_raw(self, bids: Raw, asks: Raw) -> None:
        """Load an event's levels. Raises what ``load_plain`` raises."""
        self.load_plain(split_levels(bids), split_levels(asks))

    def apply_raw(self, bids: Raw, asks: Raw) -> None:
        """Apply an event's levels. Raises what ``apply_plain`` raises."""
        self.apply_plain(split_levels(bids), split_levels(asks))

    def checksum(self) -> None:
        """None: it has none."""

    def forget_beyond(self, bid: Decimal | None, ask: Decimal | None) -> None:
        """Drop bids below, and asks above, these prices."""
        for half, last in ((self._bids, bid), (self._asks, ask)):
            if last is not None:
                half.forget_below(half.sign * self._key(f"{last:f}"))

    def _admit(self, half: "_Half", known: int, levels: Sequence[LevelText]) -> None:
        """Insert the keys of new prices: the entries of the dict after the first ``known``."""
        self._may_cross = True
        # A dict keeps insertion order: new entries are last.
        added = list(islice(reversed(half.quantities), len(half.quantities) - known))
        if len(added) > 1:
            # Removed ones last: one of them may be another spelling of a price that is new too.
            added.sort(key=lambda price: bool(half.quantities[price].strip("0.")))
        while added:
            price = added.pop()
            try:
                key = half.sign * self._key(price)
            except MalformedLevels:
                for each in (price, *added):
                    del half.quantities[each]
                raise
            half.admit(key, price, levels)
        if len(half.keys) > half.most_keys:
            half.sweep()

    def _keys(self, prices: list[str], sign: int) -> list[int]:
        """The keys of a whole side; computed at once if all have as many decimals as the book."""
        joined = ",".join(prices)
        digits = joined.replace(".", "")
        keys = digits.split(",")
        points = set(map(itemgetter(slice(-1 - self._scale, -self._scale)), prices))
        whole = digits.replace(",", "")
        plain = whole.isdecimal() and whole.isascii()
        one_each = len(joined) - len(digits) == len(keys) == len(prices)
        if points == {"."} and one_each and max(map(len, keys)) < _LONGEST and plain:
            return [sign * int(key) for key in keys]
        for price in prices:  # twice: the first pass finds the scale for all
            self._key(price)
        return [sign * self._key(price) for price in prices]

    def _key(self, text: str) -> int:
        whole, _, fraction = text.partition(".")
        digits = whole + fraction
        if not digits.isdecimal() or not digits.isascii() or len(text) > _LONGEST:
            raise MalformedLevels(f"{text[:40]!r} is not a price")
        decimals = len(fraction)
        if decimals == self._scale:
            return int(digits)
        if decimals > self._scale:
            self._rescale(decimals)
        key: int = int(digits) * 10 ** (self._scale - decimals)
        return key

    def _rescale(self, scale: int) -> None:
        factor: int = 10 ** (scale - self._scale)
        self._scale = scale
        self._bids.multiply(factor)
        self._asks.multiply(factor)

    def _clear(self) -> None:
        self._bids.load([], [])
        self._asks.load([], [])

    @property
    def best_bid(self) -> Level | None:
        """The highest bid, if there is one."""
        return self._bids.best()

    @property
    def best_ask(self) -> Level | None:
        """The lowest ask, if there is one."""
        return self._asks.best()

    def crossed(self) -> bool:
        """Whether the best bid reaches the best ask: never true of a correct book."""
        if not (self._may_cross and self._keys_cross()):
            self._may_cross = False
            return False
        # The best key of a side may be of a removed level.
        self._bids.drop_removed()
        self._asks.drop_removed()
        self._may_cross = self._keys_cross()
        return self._may_cross

    def _keys_cross(self) -> bool:
        bids, asks = self._bids.keys, self._asks.keys
        return bool(bids and asks and bids[-1] >= -asks[-1])

    def bids(self, depth: int | None = None) -> Iterator[Level]:
        """Bids, highest first."""
        return islice(self._bids.walk(), depth)

    def asks(self, depth: int | None = None) -> Iterator[Level]:
        """Asks, lowest first."""
        return islice(self._asks.walk(), depth)

    def texts(self, depth: int | None = None) -> tuple[list[LevelText], list[LevelText]]:
        """Bids and asks, best first, in the wire's digits."""
        return list(islice(self._bids.texts(), depth)), list(islice(self._asks.texts(), depth))

    def __len__(self) -> int:
        return sum(1 for half in (self._bids, self._asks) for _ in half.texts())


class _Half:
    """One side; keys are prices times ``sign``, ascending, the best last."""

    __slots__ = ("keys", "most_keys", "quantities", "sign", "spellings")

    def __init__(self, sign: int) -> None:
        self.sign = sign
        self.load([], [])

    def load(self, keys: Sequence[int], levels: Sequence[LevelText]) -> None:
        by_key = dict(zip(keys, levels, strict=True))  # of a repeated price, the last is kept
        self.quantities: dict[str, str] = dict(by_key.values())
        """By the spelling of the price; zero if it was removed."""
        self.spellings: dict[int, str] = dict(zip(by_key, self.quantities, strict=True))
        self.keys = sorted(by_key)
        self._allow_spare()

    def admit(self, key: int, price: str, levels: Sequence[LevelText]) -> None:
        """Insert the key of a new spelling of a price, which is in ``quantities`` already."""
        other = self.spellings.get(key)
        if other is not None:
            last = next(each for each, _ in reversed(levels) if each in (price, other))
            del self.quantities[other if last == price else price]
            self.spellings[key] = last
        elif self.quantities[price].strip("0."):
            self.spellings[key] = price
            insort(self.keys, key)
        else:
            del self.quantities[price]

    def drop_removed(self) -> None:
        """Drop removed levels at the end, so that the last key is the best price."""
        keys, spellings, quantities = self.keys, self.spellings, self.quantities
        while keys and not quantities[spellings[keys[-1]]].strip("0."):
            del quantities[spellings.pop(keys.pop())]

    def sweep(self) -> None:
        """Drop every removed level."""
        quantities, spellings = self.quantities, self.spellings
        self.keys = [key for key in self.keys if quantities[spellings[key]].strip("0.")]
        self.spellings = {key: spellings[key] for key in self.keys}
        self.quantities = {price: quantities[price] for price in self.spellings.values()}
        self._allow_spare()

    def _allow_spare(self) -> None:
        self.most_keys = len(self.keys) + max(_SPARE, len(self.keys) // 4)

    def forget_below(self, key: int) -> None:
        """Drop every level that is worse than this one."""
        kept = bisect_left(self.keys, key)
        for worse in self.keys[:kept]:
            del self.quantities[self.spellings.pop(worse)]
        del self.keys[:kept]

    def multiply(self, factor: int) -> None:
        self.keys = [key * factor for key in self.keys]
        self.spellings = {key * factor: price for key, price in self.spellings.items()}

    def best(self) -> Level | None:
        self.drop_removed()
        if not self.keys:
            return None
        price = self.spellings[self.keys[-1]]
        return Decimal(price), Decimal(self.quantities[price])

    def texts(self) -> Iterator[LevelText]:
        for key in reversed(self.keys):
            price = self.spellings[key]
            quantity = self.quantities[price]
            if quantity.strip("0."):
                yield price, quantity

    def walk(self) -> Iterator[Level]:
        for price, quantity in self.texts():
            yield Decimal(price), Decimal(quantity)
