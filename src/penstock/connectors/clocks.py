"""Converts times between the clocks of this process, the store and the exchange.

Windows follow the exchange's clock, budgets the store's clock, and a process can read only its own.
The store's offset is estimated from each response of the store, the exchange's from each response
of the exchange, both as bounds (``throttle/offset.py``). The offset between exchange and store is
their difference, and its error is the sum of both.
"""

from math import ceil
from typing import NamedTuple

from penstock.clock import Clock
from penstock.throttle.offset import Offset, narrowed, seen, step_ms

# The error before a process has measured the exchange's clock: the offset that others stored may be
# from dates in whole seconds.
_UNMEASURED_MS = 750.0
# However uncertain a clock is, half of each window stays open.
_MARGIN_SHARE = 4


class WindowPosition(NamedTuple):
    """The position of a time in the windows of one length."""

    window: int
    opens_in_ms: float
    """0 if a request sent now can only arrive in this window; else the wait until that is so."""
    left_share: float
    """The remaining share of the window."""


class Clocks:
    """The three clocks. Times are this process's, in ms, unless stated otherwise."""

    def __init__(self, clock: Clock, guard_ms: int) -> None:
        self._clock, self._guard_ms = clock, guard_ms
        self._store: Offset | None = None
        self._measured: tuple[float, float] | None = None
        self._assumed_ms = 0

    @property
    def knows_store(self) -> bool:
        """Whether the store's time has ever been read."""
        return self._store is not None

    @property
    def doubts_store(self) -> bool:
        """Whether the store's latest response contradicts the previous ones."""
        return self._store is not None and self._store.doubt is not None

    @property
    def measured(self) -> bool:
        """Whether this process has measured the exchange's clock."""
        return self._measured is not None

    def now_ms(self) -> float:
        return self._clock.now_ns() / 1_000_000

    def saw_store(self, shown_ms: int, sent_ms: float) -> int:
        """Update the store's offset from its time; how far its clock was stepped, else 0."""
        before = self._store
        self._store = narrowed(before, seen(shown_ms, 1, sent_ms, self.now_ms()))
        return step_ms(before, self._store)

    def record_exchange_offset(self, offset_ms: float, error_ms: float) -> None:
        """Set how far the exchange's clock is ahead of this one."""
        self._measured = (offset_ms, error_ms)

    def assume(self, offset_ms: int) -> None:
        """Set how far the exchange's clock is ahead of the store's, by another's measurement."""
        self._assumed_ms = offset_ms

    def of_store(self, store_ms: int) -> float:
        """The time here at which the store's clock has certainly reached ``store_ms``."""
        return store_ms - (self._store.low_ms if self._store else 0.0)

    def to_store(self, at_ms: float) -> int:
        """A time of the store's clock that is certainly not before ``at_ms`` here."""
        return ceil(at_ms + (self._store.high_ms if self._store else 0.0))

    def offset_ms(self) -> int:
        """How far the exchange's clock is ahead of the store's."""
        if self._measured is None:
            return self._assumed_ms
        return round(self._measured[0] - self._store_ahead_ms())

    def exchange_ms(self) -> int:
        """The exchange's current time."""
        return int(self.now_ms() + self._exchange_ahead_ms())

    def error_ms(self) -> float:
        """The maximum error of that, including rounding."""
        own_ms = self._measured[1] if self._measured else _UNMEASURED_MS
        return own_ms + (self._store.error_ms if self._store else 0.0) + 1.0

    def margins_ms(self, period_ms: int) -> tuple[int, int]:
        """How long nothing is taken at the beginning and at the end of a window."""
        most, error_ms = period_ms // _MARGIN_SHARE, self.error_ms()
        return min(ceil(error_ms), most), min(ceil(error_ms + self._guard_ms), most)

    def position(self, period_ms: int, at_ms: float) -> WindowPosition:
        """The position of a time in the exchange's windows."""
        ahead_ms = self._exchange_ahead_ms()
        error_ms = self._measured[1] if self._measured else self.error_ms()
        window, phase_ms = divmod(at_ms + ahead_ms, period_ms)
        most = period_ms / _MARGIN_SHARE
        opening_ms, closing_ms = min(error_ms, most), min(error_ms + self._guard_ms, most)
        closes_in_ms = period_ms - closing_ms - phase_ms
        if closes_in_ms <= 0:
            return WindowPosition(int(window), period_ms - phase_ms + opening_ms, 0.0)
        return WindowPosition(
            int(window), max(0.0, opening_ms - phase_ms), closes_in_ms / period_ms
        )

    def _exchange_ahead_ms(self) -> float:
        if self._measured is None:
            return self._assumed_ms + self._store_ahead_ms()
        return self._measured[0]

    def _store_ahead_ms(self) -> float:
        return self._store.middle_ms if self._store else 0.0
