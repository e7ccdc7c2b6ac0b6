"""An order book of limited depth, with as many levels per side as the exchange streams.

Where an exchange streams only the best levels, it does not report levels that drop out of them, so
they have to be removed here: changes to them are not sent from then on. Each side is three lists in
the same order, the best first: keys, levels, and each level's contribution to the checksum. A key
is the price as an integer at a scale common to the book. The level keeps the wire's digits, from
which checksums are computed. Sides are short, so that a dict would not find a level faster.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from decimal import Decimal

from msgspec import Raw

from penstock.books.rules import Checksum
from penstock.errors import MalformedLevels
from penstock.market.levels import Level, LevelText, split_levels

# Prices near the touch repeat, so their keys and digits are cached; the cache is bounded.
_REMEMBERED_PRICES = 10_000
_LONGEST = 100
"""The most digits of a number; no real one has as many."""


class TopBook:
    """Bids and asks, at most ``depth`` of each. See ``OrderBook`` for a whole one."""

    __slots__ = ("_asks", "_bids", "_checksum", "_depth", "_scale")

    def __init__(self, depth: int, checksum: Checksum | None = None) -> None:
        self._depth, self._checksum = depth, checksum
        self._scale = 8
        spell = _nothing if checksum is None else checksum.spell
        self._bids = _Side(-1, spell)
        self._asks = _Side(1, spell)

    def load_plain(self, bids: Sequence[LevelText], asks: Sequence[LevelText]) -> None:
        """Load levels whose quantities are known to be plain numbers, as an event's are.

        Raises:
            MalformedLevels: a price is no number. The book is then empty.
        """
        self._clear()
        try:
            keys = [self._keys(bids), self._keys(asks)]
            # Asks with more decimals may have changed the scale since.
            keys[0] = self._keys(bids)
        except MalformedLevels:
            self._clear()
            raise
        self._bids.load(keys[0], bids, self._depth)
        self._asks.load(keys[1], asks, self._depth)

    def apply_plain(self, bids: Sequence[LevelText], asks: Sequence[LevelText]) -> None:
        """Set levels, in order, to absolute quantities; zero removes. Then drop what is too deep.

        Raises:
            MalformedLevels: a price is no number. The book may then hold part of the change.
        """
        depth = self._depth
        for side, changes in ((self._bids, bids), (self._asks, asks)):
            if not changes:
                continue
            known, spell = side.known, side.spell
            keys, levels, spelled = side.keys, side.levels, side.spelled
            for change in changes:
                price, quantity = change
                key, digits = known.get(price) or self._note(side, price)
                place = bisect_left(keys, key)
                held = place < len(keys) and keys[place] == key
                if quantity.strip("0."):
                    if held:
                        levels[place] = change
                        spelled[place] = digits + spell(quantity)
                    else:
                        keys.insert(place, key)
                        levels.insert(place, change)
                        spelled.insert(place, digits + spell(quantity))
                elif held:
                    del keys[place], levels[place], spelled[place]
            if len(keys) > depth:
                del keys[depth:], levels[depth:], spelled[depth:]

    def load_raw(self, bids: Raw, asks: Raw) -> None:
        """Load an event's levels. Raises what ``load_plain`` raises."""
        self.load_plain(split_levels(bids), split_levels(asks))

    def apply_raw(self, bids: Raw, asks: Raw) -> None:
        """Apply an event's levels. Raises what ``apply_plain`` raises."""
        self.apply_plain(split_levels(bids), split_levels(asks))

    def forget_beyond(self, bid: Decimal | None, ask: Decimal | None) -> None:
        """Do nothing: it has no levels beyond its depth."""

    def checksum(self) -> int | None:
        """Return the checksum that the exchange must have sent; None if it sends none."""
        rule = self._checksum
        if rule is None:
            return None
        bids, asks, count = self._bids.spelled, self._asks.spelled, rule.levels
        return rule.of("".join(bids[:count]), "".join(asks[:count]))

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
        bids, asks = self._bids.keys, self._asks.keys
        return bool(bids and asks and -bids[0] >= asks[0])

    def texts(self, depth: int | None = None) -> tuple[list[LevelText], list[LevelText]]:
        """Bids and asks, best first, in the wire's digits."""
        return self._bids.levels[:depth], self._asks.levels[:depth]

    def __len__(self) -> int:
        return len(self._bids.keys) + len(self._asks.keys)

    def _clear(self) -> None:
        self._bids.load((), (), 0)
        self._asks.load((), (), 0)

    def _keys(self, levels: Sequence[LevelText]) -> list[int]:
        """The prices of a whole side as integers; computed at once if all have equal decimals."""
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
        for price in prices:  # twice: the first pass finds the scale for all
            self._number(price)
        return [self._number(price) for price in prices]

    def _note(self, side: "_Side", price: str) -> tuple[int, str]:
        noted = side.sign * self._number(price), side.spell(price)
        if len(side.known) >= _REMEMBERED_PRICES:
            side.known.clear()
        side.known[price] = noted
        return noted

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
    """One side; keys are prices times ``sign``, ascending, the best first."""

    __slots__ = ("keys", "known", "levels", "sign", "spell", "spelled")

    def __init__(self, sign: int, spell: Callable[[str], str]) -> None:
        self.sign, self.spell = sign, spell
        self.known: dict[str, tuple[int, str]] = {}
        """Keys and contributions of recent prices, by their spelling."""
        self.load((), (), 0)

    def load(self, numbers: Sequence[int], levels: Sequence[LevelText], depth: int) -> None:
        held = {self.sign * number: level for number, level in zip(numbers, levels, strict=True)}
        real = [key for key, (_, quantity) in held.items() if quantity.strip("0.")]
        self.keys = sorted(real)[:depth]
        self.levels = [held[key] for key in self.keys]
        self.spelled = [self.spell(price) + self.spell(size) for price, size in self.levels]

    def best(self) -> Level | None:
        if not self.levels:
            return None
        price, quantity = self.levels[0]
        return Decimal(price), Decimal(quantity)

    def multiply(self, factor: int) -> None:
        self.known.clear()
        self.keys[:] = [key * factor for key in self.keys]


def _nothing(_number: str) -> str:
    return ""
