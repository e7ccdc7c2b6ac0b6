"""Rebuilds a market's order book from its changes, and compares it with the recorded snapshots."""

from collections.abc import Iterable, Iterator
from decimal import Decimal

from penstock.books.book import Book
from penstock.books.book_set import new_book
from penstock.books.known_depth import KnownDepth
from penstock.books.rules import BookRules
from penstock.dataset.verify.findings import Finding, finding
from penstock.errors import MalformedLevels
from penstock.market.channels import BOOK_DELTAS
from penstock.market.events import BookDelta, BookSnapshot, Disconnect, Event
from penstock.storage.log.keys import Stream


class BookCheck:
    """The book of one market. It is fed with its events in the order of receipt."""

    def __init__(self, stream: Stream, rules: BookRules) -> None:
        self._stream, self._rules = stream, rules
        self._book: Book = new_book(rules)
        self._broken: Finding | None = None
        """A break in the changes, until a marker of the collector explains it."""
        self.compared = 0

    def run(self, events: Iterable[Event]) -> Iterator[Finding]:
        """Compare the book with every snapshot of the same update; report failed checksums."""
        for event in events:
            match event:
                case BookDelta():
                    self._change(event)
                case BookSnapshot():
                    yield from self._snapshot(event)
                case Disconnect() if BOOK_DELTAS.name in event.channels:
                    self._broken = None
                    self._book.interrupt(event.reason)

    def _change(self, delta: BookDelta) -> None:
        was_synced = self._book.state == "synced"
        try:
            self._book.receive(delta)
        except MalformedLevels as error:
            self._broken = self._broken or self._found(delta, f"a damaged change: {error}")
        # Where updates are numbered, a break shows that the exchange skipped some: readers see it
        # as the collector did. A record that was lost later is found by its number.
        if was_synced and self._book.state != "synced" and not self._rules.numbered:
            self._broken = self._broken or self._found(
                delta, f"the book is wrong after this change: {self._book.reason}"
            )

    def _snapshot(self, snapshot: BookSnapshot) -> Iterator[Finding]:
        if self._broken is not None:
            yield self._broken
            self._broken = None
        book = self._book
        if book.state == "synced":
            if self._rules.numbered and snapshot.update_id == book.update_id:
                yield from self._compare(snapshot)
            return
        if self._rules.numbered or snapshot.source == "live":
            book.begin(snapshot)

    def _compare(self, snapshot: BookSnapshot) -> Iterator[Finding]:
        assert self._book.levels is not None
        self.compared += 1
        sides = snapshot.bids, snapshot.asks
        depth = max(map(len, sides))
        known = KnownDepth(1).ends(self._book).known(self._book.levels.texts(depth))
        for side, mine, theirs in zip(("bids", "asks"), known, sides, strict=True):
            both = min(len(mine), len(theirs))
            rebuilt = [(Decimal(price), Decimal(quantity)) for price, quantity in mine[:both]]
            if rebuilt != theirs[:both]:
                differing = sum(a != b for a, b in zip(rebuilt, theirs, strict=False))
                problem = f"{differing} {side} differ from the snapshot {snapshot.update_id}"
                yield self._found(snapshot, problem)

    def _found(self, event: BookDelta | BookSnapshot, problem: str) -> Finding:
        return finding("books", self._stream, problem, at_ms=event.market_ms)
