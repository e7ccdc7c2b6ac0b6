"""Events of a throttler, and those who hear them."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

LOG = logging.getLogger("penstock.throttle")


@dataclass(frozen=True, slots=True)
class CapacityLow:
    """So much of a limit is used that its threshold was crossed. Told once per crossing."""

    timeframe: str
    remaining_rate: float
    """What is left, as a share of the limit."""
    remaining_cap: int
    """What is left, in the limit's own units."""


Listener = Callable[[CapacityLow], None]


class Listeners:
    """Callables that are told what happens. One that raises harms neither the others nor us."""

    __slots__ = ("_all",)

    def __init__(self) -> None:
        self._all: tuple[Listener, ...] = ()

    def add(self, listener: Listener) -> None:
        """Tell this one too, from now on."""
        self._all = (*self._all, listener)

    def remove(self, listener: Listener) -> None:
        """Tell it no more; nothing happens if it was not told before."""
        kept = list(self._all)
        if listener in kept:
            kept.remove(listener)
        self._all = tuple(kept)

    def tell(self, event: CapacityLow) -> None:
        """Hand an event to all of them, in the order in which they came."""
        for listener in self._all:
            try:
                listener(event)
            except Exception:
                LOG.exception("a listener failed: %r was told %r", listener, event)
