"""Audits books: compares each maintained book with the exchange's own, one after the other.

How a book is compared and corrected is its own matter; see ``books.book.Audit``.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import count

from penstock.books.book import BookView
from penstock.books.events import AuditDone, BookEvent
from penstock.books.health import Audited
from penstock.books.rules import BookRules
from penstock.clock import Clock
from penstock.collect.availability import RestAvailability
from penstock.collect.facts import BookDrifted, SnapshotFailed
from penstock.collect.snapshot_queue import Urgency
from penstock.collect.snapshots import SnapshotFetcher
from penstock.config import Collect
from penstock.errors import UNAVAILABLE, MalformedLevels
from penstock.market.events import Event
from penstock.market.symbol import Symbol
from penstock.telemetry import Listener

Books = Mapping[Symbol, BookView]


@dataclass
class Auditor:
    """Audits one exchange's books."""

    fetcher: SnapshotFetcher
    books: Callable[[], Books]
    book_event: Callable[[Symbol, BookEvent], None]
    """Passes an event to a book."""
    rules: BookRules
    record: Callable[[Sequence[Event]], Awaitable[object]]
    clock: Clock
    settings: Collect
    availability: RestAvailability
    emit: Listener
    found: dict[Symbol, Audited] = field(default_factory=dict)
    _under_way: set[Symbol] = field(default_factory=set)
    _turns: dict[Symbol, int] = field(default_factory=dict)
    """The number of each symbol's last audit."""
    _turn: "count[int]" = field(default_factory=count)

    def due(self) -> Symbol | None:
        """The book to audit next: of those that can be compared, the one that waits longest."""
        ready = [
            symbol
            for symbol, book in self.books().items()
            if book.state == "synced" and book.levels is not None and symbol not in self._under_way
        ]
        return min(ready, key=lambda symbol: self._turns.get(symbol, -1), default=None)

    def gap_s(self) -> float:
        """Seconds between two audits, over all books."""
        period_s = self.settings.audit_every
        if not self.rules.shows_loss:  # then only audited books are recorded
            period_s = min(period_s, self.settings.book_every)
        symbols = list(self.books())
        if not symbols:
            return period_s
        return max(period_s / len(symbols), self.fetcher.audit_gap_s(symbols[0]))

    async def audit(self, symbol: Symbol, urgency: Urgency = Urgency.AUDIT) -> None:
        """Compare one book, unless the book or the snapshot is unavailable.

        Raises:
            StorageError: the snapshot cannot be recorded.
        """
        if symbol in self._under_way:
            return
        self._under_way.add(symbol)
        self._turns[symbol] = next(self._turn)
        try:
            await self._compare(symbol, urgency)
        except (*UNAVAILABLE, MalformedLevels) as error:
            if not self.availability.failed(error):
                exchange, reason = self.fetcher.exchange, str(error)
                self.emit(SnapshotFailed(exchange=exchange, symbol=symbol.slug, reason=reason))
        finally:
            self._under_way.discard(symbol)

    async def _compare(self, symbol: Symbol, urgency: Urgency) -> None:
        with ExitStack() as stack:
            async with self.fetcher.turn(symbol, urgency):
                book = self.books().get(symbol)
                if book is None or book.state != "synced" or book.levels is None:
                    return
                audit = stack.enter_context(closing(book.audit(self.fetcher.depth)))
                snapshot = await self.fetcher.fetch(symbol)
            audit.receive(snapshot)
            waited_s = 0.0
            while (pause_s := audit.pause_s(waited_s)) > 0:
                await self.clock.sleep(pause_s)
                waited_s += pause_s
            self.book_event(symbol, AuditDone(audit))
        finding = audit.finding
        if finding is None:
            return
        self._note(symbol, finding.drift)
        if finding.replaced and (finding.drift or urgency is Urgency.FADING):
            await self.record([snapshot])
        elif finding.confirmed is not None:
            (bids, asks), at_ns = finding.confirmed
            most = self.settings.book_levels
            await self.record([self.fetcher.shown(symbol, (bids[:most], asks[:most]), 0, at_ns)])

    def _note(self, symbol: Symbol, drift: int) -> None:
        audits = self.found.get(symbol, Audited()).audits + 1
        self.found[symbol] = Audited(audits, drift, self.clock.now_ms())
        if drift:
            exchange = self.fetcher.exchange
            self.emit(BookDrifted(exchange=exchange, symbol=symbol.slug, levels=drift))
