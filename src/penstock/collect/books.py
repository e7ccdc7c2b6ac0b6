"""Maintains books: everything about them that needs REST requests or timers.

It fetches the snapshots that books start from, requests new ones before the price leaves the known
depth, runs the audits, and records snapshots of the books at intervals, as starting points for
readers.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from penstock.books.book import BookView
from penstock.books.commands import FetchSnapshot
from penstock.books.events import BookEvent, PriceLeft, TrimLevels
from penstock.books.health import Audited, BookHealth
from penstock.books.known_depth import Ends, KnownDepth
from penstock.books.rules import BookRules
from penstock.clock import Clock
from penstock.collect.auditor import Auditor, Books
from penstock.collect.availability import RestAvailability
from penstock.collect.snapshot_queue import SnapshotQueue, Urgency
from penstock.collect.snapshots import SnapshotFetcher
from penstock.config import Collect
from penstock.errors import UNAVAILABLE
from penstock.exchanges.base import ExchangeClient, Rest
from penstock.market.events import BookSnapshot, Event
from penstock.market.symbol import Symbol
from penstock.telemetry import Listener, quiet

_DEPTH_CHECK_S = 0.25
_FASTEST_PER_S = 0.02
"""A price that is this share of itself away from the end of the known depth gets there in a second
at the earliest …"""
_LONGEST_FAR_S = 2.0
"""… and one that is further away is looked at again after this time."""


class _Far:
    """A book whose price was far from the end of its known depth."""

    def __init__(self, until_ns: int, book: BookView) -> None:
        self._until_ns, self._depths = until_ns, book.side_depths
        self._state = book.update_id, book.at_ns

    def is_still(self, book: BookView, now_ns: int) -> bool:
        """Whether the price cannot have come near since, or has not changed."""
        return book.side_depths is self._depths and (
            now_ns < self._until_ns or (book.update_id, book.at_ns) == self._state
        )


@dataclass
class BookMaintainer:
    """Maintains one exchange's books."""

    gateway: ExchangeClient
    rest: Rest
    books: Callable[[], Books]
    """Returns all current books."""
    book_event: Callable[[Symbol, BookEvent], None]
    """Passes an event to a book."""
    rules: BookRules
    record: Callable[[Sequence[Event]], Awaitable[object]]
    clock: Clock
    settings: Collect
    availability: RestAvailability
    emit: Listener = quiet
    _fetcher: SnapshotFetcher = field(init=False)
    _known_depth: KnownDepth = field(init=False)
    _auditor: Auditor = field(init=False)

    def __post_init__(self) -> None:
        # A response with fewer levels than can be requested is the whole book.
        depth = min(self.settings.book_depth, self.rules.fetched_levels or sys.maxsize)
        queue = SnapshotQueue(self.settings.snapshots_at_once)
        self._fetcher = SnapshotFetcher(self.gateway, self.rest, depth, queue)
        self._known_depth = KnownDepth(depth)
        self._auditor = Auditor(
            fetcher=self._fetcher,
            books=self.books,
            book_event=self.book_event,
            rules=self.rules,
            record=self.record,
            clock=self.clock,
            settings=self.settings,
            availability=self.availability,
            emit=self.emit,
        )

    async def run(self) -> None:
        """Maintain the books, for ever.

        Raises:
            StorageError: a snapshot cannot be recorded.
        """
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._record_forever())
                group.create_task(self._watch_known_depth(group))
                if self.settings.audit_every:
                    group.create_task(self._audit_forever(group))
        except ExceptionGroup as failures:
            # Callers expect the error itself, not the group.
            raise failures.exceptions[0] from None

    async def fetch(
        self, command: FetchSnapshot, wanted: Callable[[], bool] = lambda: True
    ) -> BookSnapshot | None:
        """A snapshot for a book to start from; None if it is no longer needed.

        ``wanted`` is called when the request's turn comes, before tokens are acquired. While
        requests are suspended, this waits.

        Raises:
            One of ``UNAVAILABLE``: it could not be fetched.
        """
        symbol, urgency = command.symbol, Urgency.LOST if command.lost else Urgency.COLD
        while True:
            await self.availability.resumed(wanted)
            async with self._fetcher.turn(symbol, urgency):
                if not wanted():
                    return None
                try:
                    return await self._fetcher.fetch(symbol)
                except UNAVAILABLE as error:
                    if not self.availability.failed(error):
                        raise

    def health_of(self, symbol: Symbol) -> BookHealth:
        """The audit results and the known depth of a book."""
        book = self.books().get(symbol)
        ends = self._known_depth.ends(book) if book is not None else Ends()
        return BookHealth(self._auditor.found.get(symbol, Audited()), ends.bid, ends.ask)

    async def record_shown(self) -> None:
        """Record snapshots of the synced books, if a lost update would have been detected."""
        if not self.rules.shows_loss:
            return
        shown = []
        for symbol, book in self.books().items():
            if book.state != "synced" or book.levels is None or self._has_left(symbol, book):
                continue
            levels = book.levels.texts(self.settings.book_levels)
            sides = self._known_depth.ends(book).known(levels)
            shown.append(self._fetcher.shown(symbol, sides, book.update_id, book.at_ns))
        await self.record(shown)

    def _has_left(self, symbol: Symbol, book: BookView) -> bool:
        """Whether the price is beyond the known depth; if so, the book receives ``PriceLeft``."""
        if not self._known_depth.left(book):
            return False
        self.book_event(symbol, PriceLeft())
        return True

    async def _record_forever(self) -> None:
        while True:
            await self.clock.sleep(self.settings.book_every)
            await self.record_shown()
            for symbol in [*self.books()]:
                self.book_event(symbol, TrimLevels(self._known_depth.depth))

    async def _watch_known_depth(self, group: asyncio.TaskGroup) -> None:
        """Request a new snapshot before the price reaches the end of the known depth."""
        far: dict[Symbol, _Far] = {}
        while True:
            await self.clock.sleep(_DEPTH_CHECK_S)
            now_ns = self.clock.monotonic_ns()
            for symbol, book in self.books().items():
                if book.state != "synced":
                    continue
                was = far.get(symbol)
                if was is not None and was.is_still(book, now_ns):
                    continue
                distance = self._known_depth.distance(book)
                if distance:
                    after_ns = round(min(_LONGEST_FAR_S, distance / _FASTEST_PER_S) * 1e9)
                    far[symbol] = _Far(now_ns + after_ns, book)
                elif not self._has_left(symbol, book) and not self.availability.suspended:
                    group.create_task(self._auditor.audit(symbol, Urgency.FADING))

    async def _audit_forever(self, group: asyncio.TaskGroup) -> None:
        while True:
            await self.clock.sleep(self._auditor.gap_s())
            symbol = self._auditor.due()
            if symbol is not None and not self.availability.suspended:
                group.create_task(self._auditor.audit(symbol))
