"""Book restarts: when a book that is not there yet, or was lost, is begun again.

At first at once, then after pauses that grow as long as it does not stand.
"""

from collections import Counter
from collections.abc import Callable

from penstock.market.symbol import Symbol
from penstock.resilience.backoff import Backoff
from penstock.streaming.commands import FetchSnapshot
from penstock.streaming.subscribe_requests import SECOND_NS

_GOOD_AFTER_NS = 5 * SECOND_NS
"""A book that stood so long before it went wrong is begun again at once."""


class BookRestarts:
    """Those of one connection's books."""

    def __init__(self, backoff: Backoff, random: Callable[[], float], begin_within_ns: int) -> None:
        """``begin_within_ns``: how long a stream may take to begin with a snapshot."""
        self._backoff, self._random = backoff, random
        self._begin_within_ns = begin_within_ns
        self._fetching: set[Symbol] = set()
        self._tries: Counter[Symbol] = Counter()
        """How often a book was begun in vain, since it last stood."""
        self._due_ns: dict[Symbol, int] = {}
        """When a stream is asked for anew if its book has not begun by then."""
        self._begun_ns: dict[Symbol, int] = {}

    def fetch(self, symbol: Symbol) -> FetchSnapshot | None:
        """What gets a book from elsewhere; None if that is under way."""
        if symbol in self._fetching:
            return None
        self._fetching.add(symbol)
        wanted = FetchSnapshot(symbol, self._pause_ns(symbol) / SECOND_NS)
        self._tries[symbol] += 1
        return wanted

    def fetched(self, symbol: Symbol) -> None:
        """It is no longer under way."""
        self._fetching.discard(symbol)

    def joined(self, symbol: Symbol) -> None:
        """What was fetched was of use: the book stands."""
        self._fetching.discard(symbol)
        del self._tries[symbol]

    def plan(self, symbol: Symbol, at_ns: int) -> bool:
        """A book in its stream went wrong; whether a new beginning was not planned yet."""
        if symbol in self._due_ns:
            return False
        if at_ns - self._begun_ns.get(symbol, at_ns) > _GOOD_AFTER_NS:
            del self._tries[symbol]
        self._due_ns[symbol] = at_ns + self._pause_ns(symbol)
        return True

    def wait(self, symbol: Symbol, at_ns: int, *, anew: bool = False) -> None:
        """Its stream was asked for: give it some time to begin with a snapshot."""
        if anew:
            self._tries[symbol] += 1
        self._due_ns[symbol] = at_ns + self._begin_within_ns + self._pause_ns(symbol)

    def begun(self, symbol: Symbol, at_ns: int) -> None:
        """A snapshot came in its stream."""
        self._due_ns.pop(symbol, None)
        self._begun_ns[symbol] = at_ns

    def drop(self, symbol: Symbol) -> None:
        """It is waited for no longer."""
        self._due_ns.pop(symbol, None)

    def clear(self) -> None:
        """The streams have ended."""
        self._due_ns.clear()

    def due(self, at_ns: int) -> list[Symbol]:
        """Books whose streams are to be asked for anew now."""
        return [symbol for symbol, due_ns in self._due_ns.items() if due_ns <= at_ns]

    def instants_ns(self) -> list[int]:
        """When books are due."""
        return [*self._due_ns.values()]

    def _pause_ns(self, symbol: Symbol) -> int:
        tries = self._tries[symbol]
        pause_s = self._backoff.delay(tries - 1, self._random()) if tries else 0.0
        return round(pause_s * SECOND_NS)
