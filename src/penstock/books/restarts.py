"""Book restarts schedule when a missing or lost book is started again.

The first restart is immediate; further ones follow after growing delays until the book is valid.
"""

from collections import Counter
from collections.abc import Callable

from penstock.market.symbol import Symbol
from penstock.resilience.backoff import Backoff

_SECOND_NS = 1_000_000_000
_GOOD_AFTER_NS = 5 * _SECOND_NS
"""A book that was valid for this long before it failed is restarted at once."""


class BookRestarts:
    """The restarts of one connection's books."""

    def __init__(self, backoff: Backoff, random: Callable[[], float], begin_within_ns: int) -> None:
        """``begin_within_ns``: how long a stream may take to start with a snapshot."""
        self._backoff, self._random = backoff, random
        self._begin_within_ns = begin_within_ns
        self._fetching: set[Symbol] = set()
        self._tries: Counter[Symbol] = Counter()
        """How often a book was restarted without success since it was last valid."""
        self._due_ns: dict[Symbol, int] = {}
        """When a stream is subscribed again if its book has not started by then."""
        self._begun_ns: dict[Symbol, int] = {}

    def fetch(self, symbol: Symbol) -> float | None:
        """Return the delay after which to fetch a snapshot; None if one is being fetched."""
        if symbol in self._fetching:
            return None
        self._fetching.add(symbol)
        after_s = self._pause_ns(symbol) / _SECOND_NS
        self._tries[symbol] += 1
        return after_s

    def fetched(self, symbol: Symbol) -> None:
        """Note that the fetch has ended."""
        self._fetching.discard(symbol)

    def joined(self, symbol: Symbol) -> None:
        """Note that the book joined a snapshot and is valid."""
        self._fetching.discard(symbol)
        del self._tries[symbol]

    def plan(self, symbol: Symbol, at_ns: int) -> bool:
        """Plan the restart of a book in its stream; return False if one is planned already."""
        if symbol in self._due_ns:
            return False
        if at_ns - self._begun_ns.get(symbol, at_ns) > _GOOD_AFTER_NS:
            del self._tries[symbol]
        self._due_ns[symbol] = at_ns + self._pause_ns(symbol)
        return True

    def wait(self, symbol: Symbol, at_ns: int, *, anew: bool = False) -> None:
        """Note that its stream was requested, and allow time for the snapshot."""
        if anew:
            self._tries[symbol] += 1
        self._due_ns[symbol] = at_ns + self._begin_within_ns + self._pause_ns(symbol)

    def begun(self, symbol: Symbol, at_ns: int) -> None:
        """Note a snapshot in its stream."""
        self._due_ns.pop(symbol, None)
        self._begun_ns[symbol] = at_ns

    def cancel(self, symbol: Symbol) -> bool:
        """Cancel the restart of a book; return whether a snapshot was being fetched."""
        self._due_ns.pop(symbol, None)
        fetching = symbol in self._fetching
        self._fetching.discard(symbol)
        return fetching

    def due(self, at_ns: int) -> list[Symbol]:
        """The books whose streams are to be subscribed again now."""
        return [symbol for symbol, due_ns in self._due_ns.items() if due_ns <= at_ns]

    def instants_ns(self) -> list[int]:
        """The times at which restarts are due."""
        return [*self._due_ns.values()]

    def _pause_ns(self, symbol: Symbol) -> int:
        tries = self._tries[symbol]
        pause_s = self._backoff.delay(tries - 1, self._random()) if tries else 0.0
        return round(pause_s * _SECOND_NS)
