"""Keeps the last event of each stream for a moment: called with every event, it must be fast."""

from collections.abc import Sequence
from typing import Protocol

from penstock import compiled
from penstock.market.events import Event
from penstock.market.symbol import Symbol


class LatestEvents(Protocol):
    """The last event of each class and symbol."""

    def note(self, events: Sequence[Event], /) -> None:
        """Replace the last event of each class and symbol among these."""
        ...

    def take(self) -> list[Event]:
        """Return the last events, and forget them."""
        ...


class LatestInPython:
    """See ``LatestEvents``."""

    def __init__(self) -> None:
        self._events: dict[tuple[type[Event], Symbol], Event] = {}

    def note(self, events: Sequence[Event], /) -> None:
        """See ``LatestEvents``."""
        self._events.update({(type(each), each.symbol): each for each in events})

    def take(self) -> list[Event]:
        """See ``LatestEvents``."""
        taken, self._events = self._events, {}
        return [*taken.values()]


def latest_events() -> LatestEvents:
    """One that has none."""
    return LatestInPython() if compiled.Latest is None else compiled.Latest()
