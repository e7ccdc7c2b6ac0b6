"""The books' maintainer: everything about books that needs the exchange's REST side, or time.

It fetches the snapshots that books are begun from, knows how far down each is known and asks for
more in time, has them audited, and records what they show now and then, so that readers have a
place to begin from.
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
    """What is known of a book apart from its levels."""

    audited: Audited
    known_bid: Decimal | None
    known_ask: Decimal | None


@dataclass
class BookMaintainer:
    """Takes care of one exchange's books."""

    gateway: ExchangeClient
    rest: Rest
    books: Callable[[], Books]
    """All there are at the moment."""
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
        # An answer with fewer levels than could be asked for is the whole book.
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
        """Take care, for ever.

        Raises:
            StorageError: what the books show cannot be recorded.
        """
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._record_forever())
                group.create_task(self._watch_known_depth(group))
                if self.settings.audit_every:
                    group.create_task(self._audit_forever(group))
        except ExceptionGroup as failures:
            # Whoever called wants the one thing that went wrong, not the group it was in.
            raise failures.exceptions[0] from None

    async def fetch(
        self, symbol: Symbol, wanted: Callable[[], bool] | None = None
    ) -> BookSnapshot | None:
        """A snapshot for a book to begin from; None if nobody wants it any more.

        ``wanted`` is asked when its turn has come, and nothing is paid before; unless it is given,
        the book itself is asked. While nothing can be asked at all, it waits.

        Raises:
            One of ``UNAVAILABLE``: it could not be had.
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
        """What audits found of a book, and how far it is known."""
        sync = self.books().get(symbol)
        ends = self._known_depth.ends(sync) if sync is not None else Ends()
        return BookHealth(self._auditor.found.get(symbol, Audited()), ends.bid, ends.ask)

    async def record_shown(self) -> None:
        """Record what the synced books show, where a change that was lost would have shown."""
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
        """Stop believing a book whose price is beyond all that is known of it."""
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
        """Ask for a new snapshot before the price has come to the end of what is known."""
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
