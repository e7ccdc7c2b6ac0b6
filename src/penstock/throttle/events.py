"""Events of a throttler, and the listeners that receive them."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

LOG = logging.getLogger("penstock.throttle")


@dataclass(frozen=True, slots=True)
class CapacityLow:
    """The usage of a limit crossed its threshold. Sent once per crossing."""

    timeframe: str
    remaining_rate: float
    """The remaining share of the limit."""
    remaining_cap: int
    """The remaining capacity, in the limit's own units."""


Listener = Callable[[CapacityLow], None]


class Listeners:
    """Callables that receive events. One that raises affects neither the others nor the caller."""

    __slots__ = ("_all",)

    def __init__(self) -> None:
        self._all: tuple[Listener, ...] = ()

    def add(self, listener: Listener) -> None:
        """Send events to this listener too, from now on."""
        self._all = (*self._all, listener)

    def remove(self, listener: Listener) -> None:
        """Stop sending events to it; no effect if it was not added."""
        kept = list(self._all)
        if listener in kept:
            kept.remove(listener)
        self._all = tuple(kept)

    def emit(self, event: CapacityLow) -> None:
        """Send an event to all listeners, in the order in which they were added."""
        for listener in self._all:
            try:
                listener(event)
            except Exception:
                LOG.exception("a listener failed: %r was given %r", listener, event)
