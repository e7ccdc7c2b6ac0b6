"""Audits books: compares each maintained book with the exchange's own, one after the other.

A book with update ids that differs is wrong, and continues from the snapshot that showed it.
Without update ids a difference may be an error of the snapshot (an outdated response, for example);
only after the second one in a row is the book restarted. See ``streaming.audit``.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from itertools import count

from penstock.clock import Clock
from penstock.collect.availability import RestAvailability
from penstock.collect.facts import BookDrifted, SnapshotFailed
from penstock.collect.known_depth import KnownDepth
from penstock.collect.snapshot_queue import Urgency
from penstock.collect.snapshots import SnapshotFetcher
from penstock.config import Collect
from penstock.errors import UNAVAILABLE, MalformedLevels
from penstock.market.events import AnyEvent, BookSnapshot
from penstock.market.symbol import Symbol
from penstock.streaming.audit import Shadow, StateHistory, ends_of, sides_of
from penstock.streaming.book_sync import BookSync
from penstock.streaming.dialect import BookRules
from penstock.streaming.streamed_book import StreamedBook
from penstock.telemetry import Listener

Books = Mapping[Symbol, BookSync | StreamedBook]
_MEET_S = 5.0
"""How long the stream may take to deliver the updates that a snapshot already contains."""
_MEET_CHECKS = 250
_AFTERWARDS_S = 1.0
"""The same for books without update ids, where nothing shows that they were delivered."""


@dataclass(frozen=True)
class Audited:
    """Audit results of one book."""

    audits: int = 0
    """Audits with a result."""
    drift: int | None = None
    """Levels that differed at the last audit."""
    at_ms: int | None = None
    """Time of the last audit."""
    in_a_row: int = 0
    """Consecutive audits with drift."""


@dataclass
class Auditor:
    """Audits one exchange's books."""

    fetcher: SnapshotFetcher
    books: Callable[[], Books]
    rules: BookRules
    known_depth: KnownDepth
    record: Callable[[Sequence[AnyEvent]], Awaitable[object]]
    clock: Clock
    settings: Collect
    availability: RestAvailability
    tell: Listener
    found: dict[Symbol, Audited] = field(default_factory=dict)
    _under_way: set[Symbol] = field(default_factory=set)
    _turns: dict[Symbol, int] = field(default_factory=dict)
    """The number of each symbol's last audit."""
    _turn: "count[int]" = field(default_factory=count)

    def due(self) -> Symbol | None:
        """The book to audit next: of those that can be compared, the one that waits longest."""
        ready = [
            symbol
            for symbol, sync in self.books().items()
            if sync.state == "synced" and sync.book is not None and symbol not in self._under_way
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
                self.tell(SnapshotFailed(exchange=exchange, symbol=symbol.slug, reason=reason))
        finally:
            self._under_way.discard(symbol)

    async def _compare(self, symbol: Symbol, urgency: Urgency) -> None:
        with ExitStack() as listening:
            async with self.fetcher.turn(symbol, urgency):
                sync = self.books().get(symbol)
                if sync is None or sync.state != "synced" or sync.book is None:
                    return
                if isinstance(sync, BookSync):
                    shadow = listening.enter_context(closing(Shadow(sync)))
                else:
                    history = StateHistory(sync, self.rules, self.fetcher.depth)
                    listening.enter_context(closing(history))
                snapshot = await self.fetcher.fetch(symbol)
            if isinstance(sync, BookSync):
                await self._meet(sync, shadow, snapshot, urgency)
            else:
                await self._recognise(sync, history, snapshot)

    async def _meet(
        self, sync: BookSync, shadow: Shadow, snapshot: BookSnapshot, urgency: Urgency
    ) -> None:
        """Compare a book with a snapshot at the same update id, and continue from the snapshot."""
        if not shadow.join(snapshot):
            return
        for _ in range(_MEET_CHECKS):
            if shadow.meets() is not None:
                break
            await self.clock.sleep(_MEET_S / _MEET_CHECKS)
        if not shadow.meets():
            return
        symbol = snapshot.symbol
        ends = ends_of(sides_of(snapshot), self.fetcher.depth)
        drift = shadow.drift(ends.within(self.known_depth.ends(sync)))
        self._note(symbol, drift)
        shadow.take_over(_wrong(drift) if drift else "")
        if drift or urgency is Urgency.FADING:
            await self.record([snapshot])

    async def _recognise(
        self, sync: StreamedBook, history: StateHistory, snapshot: BookSnapshot
    ) -> None:
        """Compare a book without update ids with a snapshot, which may show any recent state."""
        await self.clock.sleep(_AFTERWARDS_S)
        if not history.whole:
            return
        symbol, seen = snapshot.symbol, history.compare(snapshot)
        found = self._note(symbol, seen.drift)
        if found.in_a_row > 1:
            sync.doubt(_wrong(seen.drift))
            self.found[symbol] = replace(found, in_a_row=0)
        elif not (seen.drift or seen.moving or self.rules.shows_loss):
            (bids, asks), at_ns = history.state(seen.changes)
            most = self.settings.book_levels
            sides = bids[:most], asks[:most]
            await self.record([self.fetcher.shown(symbol, sides, sync.update_id, at_ns)])

    def _note(self, symbol: Symbol, drift: int) -> Audited:
        before = self.found.get(symbol, Audited())
        in_a_row = before.in_a_row + 1 if drift else 0
        found = Audited(before.audits + 1, drift, self.clock.now_ms(), in_a_row)
        self.found[symbol] = found
        if drift:
            exchange = self.fetcher.exchange
            self.tell(BookDrifted(exchange=exchange, symbol=symbol.slug, levels=drift))
        return found


def _wrong(drift: int) -> str:
    return f"audit: {drift} levels differ from the exchange's"
