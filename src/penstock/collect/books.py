"""Maintains books: everything about them that needs REST requests or timers.

It fetches the snapshots that books start from, requests new ones before the price leaves the known
depth, runs the audits, and records snapshots of the books at intervals, as starting points for
readers.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import NamedTuple

from penstock.clock import Clock
from penstock.collect.auditor import Audited, Auditor, Books
from penstock.collect.availability import RestAvailability
from penstock.collect.known_depth import KnownDepth
from penstock.collect.snapshot_queue import SnapshotQueue, Urgency
from penstock.collect.snapshots import SnapshotFetcher
from penstock.config import Collect
from penstock.errors import UNAVAILABLE
from penstock.exchanges.base import ExchangeClient, Rest
from penstock.market.events import AnyEvent, BookSnapshot
from penstock.market.symbol import Symbol
from penstock.streaming.audit import Ends
from penstock.streaming.book_sync import BookSync
from penstock.streaming.dialect import BookRules
from penstock.streaming.streamed_book import StreamedBook
from penstock.telemetry import Listener, quiet

_DEPTH_CHECK_S = 0.25


class BookHealth(NamedTuple):
    """Audit results and known depth of a book."""

    audited: Audited
    known_bid: Decimal | None
    known_ask: Decimal | None


@dataclass
class BookMaintainer:
    """Maintains one exchange's books."""

    gateway: ExchangeClient
    rest: Rest
    books: Callable[[], Books]
    """Returns all current books."""
    rules: BookRules
    record: Callable[[Sequence[AnyEvent]], Awaitable[object]]
    clock: Clock
    settings: Collect
    availability: RestAvailability
    tell: Listener = quiet
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
            rules=self.rules,
            known_depth=self._known_depth,
            record=self.record,
            clock=self.clock,
            settings=self.settings,
            availability=self.availability,
            tell=self.tell,
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
        self, symbol: Symbol, wanted: Callable[[], bool] | None = None
    ) -> BookSnapshot | None:
        """A snapshot for a book to start from; None if it is no longer needed.

        ``wanted`` is called when the request's turn comes, before tokens are acquired; the default
        is whether the book waits for a snapshot. While requests are suspended, this waits.

        Raises:
            One of ``UNAVAILABLE``: it could not be fetched.
        """
        is_wanted = wanted or partial(self._wants, symbol)
        while True:
            await self.availability.resumed(is_wanted)
            sync = self.books().get(symbol)
            lost = sync is not None and sync.state == "stale"
            async with self._fetcher.turn(symbol, Urgency.LOST if lost else Urgency.COLD):
                if not is_wanted():
                    return None
                try:
                    return await self._fetcher.fetch(symbol)
                except UNAVAILABLE as error:
                    if not self.availability.failed(error):
                        raise

    def health_of(self, symbol: Symbol) -> BookHealth:
        """The audit results and the known depth of a book."""
        sync = self.books().get(symbol)
        ends = self._known_depth.ends(sync) if sync is not None else Ends()
        return BookHealth(self._auditor.found.get(symbol, Audited()), ends.bid, ends.ask)

    async def record_shown(self) -> None:
        """Record snapshots of the synced books, if a lost update would have been detected."""
        if not self.rules.shows_loss:
            return
        shown = []
        for symbol, sync in self.books().items():
            if sync.state != "synced" or sync.book is None or self._has_left(sync):
                continue
            sides = self._known_depth.ends(sync).known(sync.book.texts(self.settings.book_levels))
            shown.append(self._fetcher.shown(symbol, sides, sync.update_id, sync.at_ns))
        await self.record(shown)

    def _wants(self, symbol: Symbol) -> bool:
        sync = self.books().get(symbol)
        return sync is not None and sync.wants_snapshot

    def _has_left(self, sync: BookSync | StreamedBook) -> bool:
        """Distrust a book whose price is beyond its known depth; return whether it is."""
        if not self._known_depth.left(sync):
            return False
        sync.distrust("the price has left all that the snapshot showed")
        return True

    async def _record_forever(self) -> None:
        while True:
            await self.clock.sleep(self.settings.book_every)
            await self.record_shown()
            for sync in self.books().values():
                self._known_depth.forget_beyond(sync)

    async def _watch_known_depth(self, group: asyncio.TaskGroup) -> None:
        """Request a new snapshot before the price reaches the end of the known depth."""
        while True:
            await self.clock.sleep(_DEPTH_CHECK_S)
            for symbol, sync in self.books().items():
                if sync.state != "synced" or not self._known_depth.nears(sync):
                    continue
                if not self._has_left(sync) and not self.availability.suspended:
                    group.create_task(self._auditor.audit(symbol, Urgency.FADING))

    async def _audit_forever(self, group: asyncio.TaskGroup) -> None:
        while True:
            await self.clock.sleep(self._auditor.gap_s())
            symbol = self._auditor.due()
            if symbol is not None and not self.availability.suspended:
                group.create_task(self._auditor.audit(symbol))
