"""What every kind of book promises, whichever way it is kept valid."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import events
from tests.paths import both_paths  # noqa: F401 (each test runs on both)

from penstock.books.book import Book, Sides
from penstock.books.book_set import BookSet, new_book
from penstock.books.commands import BookCommand, CancelFetch, FetchSnapshot
from penstock.books.events import AuditDone, PriceLeft, TrimLevels
from penstock.books.restarts import BookRestarts
from penstock.books.rules import BookRules, Checksum
from penstock.books.top_book import TopBook
from penstock.market.events import BookDelta, BookSnapshot
from penstock.market.levels import LevelText, write_levels
from penstock.market.symbol import Symbol
from penstock.resilience.backoff import Backoff

A = Symbol("A", "USDT")
DEPTH = 4
CHECKSUM = Checksum(DEPTH, str, lambda bids, asks: crc32(f"{bids} {asks}".encode()))
KINDS = {
    "sequenced": BookRules(),
    "checksummed": BookRules(begins="stream", depth=DEPTH, checksum=CHECKSUM),
    "whole": BookRules(begins="frame", depth=DEPTH),
}
every_kind = pytest.mark.parametrize("kind", KINDS)

Change = dict[int, int]
"""Quantities by price; bids are below 10, asks above."""
changes = st.dictionaries(st.integers(1, 19).filter(lambda price: price != 10), st.integers(0, 3))


@dataclass
class Exchange:
    """An exchange's book, told in the way of one kind."""

    kind: str
    quantities: Change = field(default_factory=lambda: {9: 1, 8: 2, 11: 1, 12: 2})
    updates: int = 0

    @property
    def rules(self) -> BookRules:
        return KINDS[self.kind]

    def sides(self) -> Sides:
        prices = sorted(price for price, quantity in self.quantities.items() if quantity)
        levels: list[LevelText] = [(str(price), str(self.quantities[price])) for price in prices]
        bids: list[LevelText] = []
        asks: list[LevelText] = []
        for level in levels:
            (bids if int(level[0]) < 10 else asks).append(level)
        return bids[::-1][: self.rules.depth], asks[: self.rules.depth]

    def checksum(self) -> int | None:
        if self.rules.checksum is None:
            return None
        levels = TopBook(DEPTH, CHECKSUM)
        levels.load_plain(*self.sides())
        return levels.checksum()

    def snapshot(self) -> BookSnapshot:
        bids, asks = map(write_levels, self.sides())
        return events.snapshot(
            self.updates if self.rules.numbered else 0, A, at_ns=self.updates,
            bids_raw=bids, asks_raw=asks, checksum=self.checksum(),
        )  # fmt: skip

    def change(self, change: Change) -> BookDelta | BookSnapshot:
        """Change the book; return what its stream says about it."""
        before = [dict(side) for side in self.sides()]
        self.quantities |= change
        self.updates += 1
        if self.rules.begins == "frame":
            return self.snapshot()
        said: list[list[LevelText]] = []
        for was, now in zip(before, map(dict, self.sides()), strict=True):
            # A level that drops out of the depth is not reported.
            gone = [price for price in was if price not in now and not self.quantities[int(price)]]
            fresh = [(price, size) for price, size in now.items() if was.get(price) != size]
            said.append([*fresh, *((price, "0") for price in gone)])
        number = self.updates if self.rules.numbered else None
        bids, asks = map(write_levels, said)
        return events.delta(
            number, number, A, at_ns=self.updates, bids_raw=bids, asks_raw=asks,
            checksum=self.checksum(),
        )  # fmt: skip


def apply_to(book: Book, event: BookDelta | BookSnapshot) -> None:
    if isinstance(event, BookDelta):
        book.receive(event)
    else:
        book.begin(event)


def begun(exchange: Exchange) -> Book:
    book = new_book(exchange.rules)
    apply_to(book, exchange.change({9: 2}))
    assert book.begin(exchange.snapshot())
    return book


def shown(book: Book) -> Sides | None:
    return book.levels.texts() if book.state == "synced" and book.levels is not None else None


def whole(book: Book) -> tuple[object, ...]:
    levels = book.levels.texts() if book.levels is not None else None
    return (
        book.state, book.reason, book.update_id, book.at_ns, book.resyncs, book.wants_snapshot,
        book.side_depths, levels,
    )  # fmt: skip


streams = st.lists(st.tuples(st.sampled_from(["deliver", "lose", "cut", "begin"]), changes))


@every_kind
@given(steps=streams)
def test_the_same_events_give_the_same_book(kind: str, steps: list[tuple[str, Change]]) -> None:
    exchange = Exchange(kind)
    books = [new_book(exchange.rules), new_book(exchange.rules)]
    for what, change in steps:
        event = exchange.change(change) if what in ("deliver", "lose") else exchange.snapshot()
        for book in books:
            if what == "cut":
                book.interrupt("disconnected")
            elif what != "lose":
                apply_to(book, event)
    assert whole(books[0]) == whole(books[1])


@every_kind
@given(steps=streams)
def test_after_every_message_a_book_is_the_exchanges_or_says_that_it_is_not(
    kind: str, steps: list[tuple[str, Change]]
) -> None:
    exchange = Exchange(kind)
    book, resyncs = begun(exchange), 0
    for what, change in steps:
        if what == "cut":
            book.interrupt("disconnected")
            assert book.state == "stale"
            assert not book.wants_snapshot, "before the stream runs again"
        elif what == "lose":
            exchange.change(change)
            continue
        elif what == "begin":
            if not book.wants_snapshot:
                continue
            assert book.begin(exchange.snapshot())
        else:
            apply_to(book, exchange.change(change))
        if book.state == "synced":
            assert shown(book) == exchange.sides()
            assert not book.reason
        else:
            assert book.reason
        assert book.resyncs >= resyncs
        resyncs = book.resyncs


@every_kind
@given(before=st.lists(changes), lost=st.integers(1, 3), after=st.lists(changes, max_size=3))
def test_a_gap_is_noticed_and_after_a_resync_the_book_is_the_exchanges(
    kind: str, before: list[Change], lost: int, after: list[Change]
) -> None:
    exchange = Exchange(kind)
    book = begun(exchange)
    for change in before:
        apply_to(book, exchange.change(change))
    for _ in range(lost):  # a change that shows at any depth
        exchange.change({9: exchange.quantities[9] + 1})
    apply_to(book, exchange.change({11: exchange.quantities.get(11, 0) + 1}))

    if kind == "whole":
        assert book.resyncs == 0, "the next frame is the whole book"
    else:
        assert (book.state, book.wants_snapshot, book.resyncs) == ("stale", True, 1)
        assert book.begin(exchange.snapshot())
    for change in after:
        apply_to(book, exchange.change(change))
    assert shown(book) == exchange.sides()
    assert not book.wants_snapshot


@every_kind
@given(during=st.lists(changes, max_size=4), depth=st.sampled_from([DEPTH, 20]))
def test_an_audit_of_a_correct_book_finds_nothing(
    kind: str, during: list[Change], depth: int
) -> None:
    exchange = Exchange(kind)
    book = begun(exchange)
    audit = book.audit(depth)
    for change in during:
        apply_to(book, exchange.change(change))
    audit.receive(exchange.snapshot())
    assert audit.pause_s(waited_s=60.0) == 0
    audit.finish(book)
    audit.close()

    assert audit.finding is not None
    assert audit.finding.drift == 0
    assert (book.resyncs, shown(book)) == (0, exchange.sides())


@every_kind
def test_a_wrong_book_is_found_by_audits_and_then_corrected_or_stale(kind: str) -> None:
    exchange = Exchange(kind)
    book = begun(exchange)
    exchange.quantities[8] += 5  # its stream never says so
    found = []
    for _ in range(2):
        audit = book.audit(DEPTH)
        audit.receive(exchange.snapshot())
        audit.finish(book)
        audit.close()
        assert audit.finding is not None
        found.append(audit.finding)

    assert found[0].drift == 1
    assert book.resyncs == 1
    if found[0].replaced:
        assert shown(book) == exchange.sides()
    else:
        assert (book.state, book.wants_snapshot) == ("stale", True)
        assert book.begin(exchange.snapshot())
        assert shown(book) == exchange.sides()


@every_kind
def test_without_levels_a_book_says_only_whether_it_is_valid(kind: str) -> None:
    exchange = Exchange(kind)
    book = new_book(exchange.rules, keep_levels=False)
    apply_to(book, exchange.change({9: 2}))
    book.begin(exchange.snapshot())
    apply_to(book, exchange.change({9: 3}))
    book.forget_beyond(1)

    assert (book.state, book.levels) == ("synced", None)


@every_kind
def test_the_count_of_resyncs_is_carried_over_and_never_lowered(kind: str) -> None:
    book = begun(Exchange(kind))
    for before, after in ((3, 3), (1, 3)):
        book.carry_resyncs(before)
        assert book.resyncs == after


# The books of one connection.


def book_set(kind: str, issue: Callable[[BookCommand], None]) -> BookSet:
    restarts = BookRestarts(Backoff(first_s=1.0, jitter=0.0), lambda: 0.0, 1_000_000_000)
    books = BookSet(KINDS[kind], restarts, issue)
    books.add([A])
    return books


@every_kind
def test_a_lost_book_is_restarted_in_the_way_of_its_kind(kind: str) -> None:
    commands: list[BookCommand] = []
    exchange, books = Exchange(kind), book_set(kind, commands.append)
    apply_to(books[A], exchange.change({9: 2}))
    books[A].begin(exchange.snapshot())
    books.handle(A, PriceLeft())
    apply_to(books[A], exchange.change({9: 3}))
    subscribed_again = books.restart(A, 0) if books[A].wants_snapshot else False

    assert subscribed_again == (kind == "checksummed")
    assert commands == ([FetchSnapshot(A, 0.0, lost=True)] if kind == "sequenced" else [])


steps_of_set = st.lists(
    st.tuples(st.sampled_from(["deliver", "lose", "cut", "answer", "fail", "remove"]), changes)
)


@given(steps_of_set)
def test_a_sequenced_book_that_waits_has_exactly_one_snapshot_on_the_way(
    steps: Sequence[tuple[str, Change]],
) -> None:
    fetching = 0

    def issue(command: BookCommand) -> None:
        nonlocal fetching
        fetching += 1 if isinstance(command, FetchSnapshot) else -1

    exchange, books = Exchange("sequenced"), book_set("sequenced", issue)
    for what, change in steps:
        if what == "remove":
            books.remove(A)
            assert fetching == 0
            books.add([A])
        elif what == "cut":
            books.interrupt_all("disconnected")
        elif what in ("answer", "fail"):
            if fetching:
                fetching -= 1
                if what == "answer":
                    books.fetched(exchange.snapshot())
                else:
                    books.fetch_failed(A)
        else:
            event = exchange.change(change)
            if what == "deliver":
                apply_to(books[A], event)
                if books[A].wants_snapshot:
                    books.restart(A, 0)
        assert fetching == books[A].wants_snapshot


def test_a_snapshot_that_nobody_waits_for_is_cancelled_once() -> None:
    commands: list[BookCommand] = []
    exchange, books = Exchange("sequenced"), book_set("sequenced", commands.append)
    apply_to(books[A], exchange.change({9: 2}))
    books.restart(A, 0)
    for _ in range(2):
        books.interrupt(A, "disconnected")

    assert commands == [FetchSnapshot(A, 0.0), CancelFetch(A)]


@every_kind
def test_events_of_an_audit_and_of_the_depth_pass_through_the_set(kind: str) -> None:
    exchange, books = Exchange(kind), book_set(kind, lambda _: None)
    apply_to(books[A], exchange.change({9: 2}))
    books[A].begin(exchange.snapshot())
    audit = books[A].audit(DEPTH)
    audit.receive(exchange.snapshot())
    books.handle(A, AuditDone(audit))
    apply_to(books[A], exchange.change({1: 1, 19: 1}))
    books.handle(A, TrimLevels(depth=2))

    assert audit.finding is not None
    bids, asks = shown(books[A]) or ([], [])
    assert len(bids) == len(asks) == (2 if kind == "sequenced" else 3)
