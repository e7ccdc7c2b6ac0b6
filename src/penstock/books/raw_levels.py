"""The levels of a book that is sent whole with every frame, decoded only on access.

Most of these books are replaced before they are read, so a new one costs two references and a check
of the best prices. Exchanges send such books best first; they are sorted again when read.
"""

from collections.abc import Sequence
from decimal import Decimal

from msgspec import Raw

from penstock.market.levels import Level, LevelText, split_levels

_NO_LEVELS = Raw(b"[]")
_FIRST_PRICE = len(b'[["')


class RawLevels:
    """Bids and asks, at most ``depth`` of each. See ``TopBook`` for one that gets changes."""

    __slots__ = ("_asks", "_bids", "_depth")

    def __init__(self, depth: int | None) -> None:
        self._depth = depth
        self._bids = self._asks = _NO_LEVELS

    def load_raw(self, bids: Raw, asks: Raw) -> None:
        """Load an event's levels, which are plain numbers in the common spelling."""
        self._bids, self._asks = bids, asks

    def crossed(self) -> bool:
        """Whether the first bid reaches the first ask."""
        bid, ask = _first_price(self._bids), _first_price(self._asks)
        return bid is not None and ask is not None and bid >= ask

    @property
    def best_bid(self) -> Level | None:
        """The highest bid, if there is one."""
        return _first(self.texts(1)[0])

    @property
    def best_ask(self) -> Level | None:
        """The lowest ask, if there is one."""
        return _first(self.texts(1)[1])

    def texts(self, depth: int | None = None) -> tuple[list[LevelText], list[LevelText]]:
        """Bids and asks, best first, in the wire's digits."""
        bids = sorted(split_levels(self._bids), key=_price, reverse=True)
        asks = sorted(split_levels(self._asks), key=_price)
        return bids[: self._depth][:depth], asks[: self._depth][:depth]

    def __len__(self) -> int:
        return sum(map(len, self.texts()))


def _price(level: LevelText) -> Decimal:
    return Decimal(level[0])


def _first(levels: Sequence[LevelText]) -> Level | None:
    return (Decimal(levels[0][0]), Decimal(levels[0][1])) if levels else None


def _first_price(raw: Raw) -> Decimal | None:
    written = bytes(raw)
    end = written.find(b'"', _FIRST_PRICE)
    return Decimal(written[_FIRST_PRICE:end].decode()) if end > 0 else None
