"""Audits: every difference is found that is there, and none that is not."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests import events

from penstock.books.book import Audit, Finding
from penstock.books.known_depth import Ends, ends_of
from penstock.books.level_diff import count_differing
from penstock.books.rules import BookRules
from penstock.books.sequenced import SequencedBook
from penstock.books.streamed import StreamedBook
from penstock.books.whole import WholeBook
from penstock.market.events import BookDelta, BookSnapshot
from penstock.market.levels import LevelText, write_levels
from penstock.market.symbol import Symbol

SYMBOL = Symbol("BTC", "USDT")
DEPTH = 4
BIDS, ASKS = range(1, 11), range(11, 21)
"""The prices of a small world."""

Book = dict[int, int]
"""Quantities by price; nothing where there is none."""


def sides(book: Mapping[int, int]) -> tuple[list[LevelText], list[LevelText]]:
    def level(price: int) -> LevelText:
        return str(price), str(book[price])

    bids = [level(price) for price in sorted(BIDS, reverse=True) if book.get(price)]
    return bids, [level(price) for price in ASKS if book.get(price)]


def snapshot(book: Mapping[int, int], update_id: int = 0, depth: int = DEPTH) -> BookSnapshot:
    bids, asks = (write_levels(side[:depth]) for side in sides(book))
    return events.snapshot(update_id, SYMBOL, at_ns=update_id, bids_raw=bids, asks_raw=asks)


def delta(first: int, final: int, changes: Mapping[int, int]) -> BookDelta:
    levels = [(price, (str(price), str(quantity))) for price, quantity in changes.items()]
    bids = write_levels([level for price, level in levels if price in BIDS])
    asks = write_levels([level for price, level in levels if price in ASKS])
    return events.delta(first, final, SYMBOL, at_ns=final, bids_raw=bids, asks_raw=asks)


changes = st.dictionaries(st.integers(1, 20), st.integers(0, 3), min_size=1, max_size=4)
full = st.fixed_dictionaries({price: st.integers(1, 3) for price in range(1, 21)})


@dataclass
class Market:
    """An exchange's book, its history, and somebody who keeps it by number."""

    book: Book
    depth: int = DEPTH
    at: int = 0
    history: list[Book] = field(default_factory=list)
    sync: SequencedBook = field(default_factory=SequencedBook)
    ends: Ends = field(default_factory=Ends)

    def __post_init__(self) -> None:
        self.history.append(dict(self.book))

    def change(self, change: Book, *, lost: bool = False) -> None:
        self.book |= change
        self.at += 1
        self.history.append(dict(self.book))
        if not lost:
            self.sync.receive(delta(self.at, self.at, change))

    def fetch(self, age: int = 0) -> BookSnapshot:
        at = max(0, self.at - age)
        return snapshot(self.history[at], at, self.depth)

    def begin(self) -> None:
        fetched = self.fetch()
        self.sync.receive(delta(self.at, self.at, {}))
        assert self.sync.begin(fetched)
        self.ends = ends_of(sides(self.book), self.depth)


def shown(sync: SequencedBook, ends: Ends) -> tuple[list[LevelText], list[LevelText]]:
    assert sync.levels is not None
    return ends.known(sync.levels.texts())


steps = st.lists(
    st.one_of(
        st.tuples(st.just("change"), changes),
        st.tuples(st.just("lose"), changes),
        st.tuples(st.just("shadow"), st.just({})),
        st.tuples(st.just("fetch"), st.dictionaries(st.just(0), st.integers(0, 6), max_size=1)),
        st.tuples(st.just("cut"), st.just({})),
    ),
    max_size=40,
)


@given(full, steps)
def test_through_any_losses_a_shadow_that_meets_a_book_finds_it_right(
    book: Book, events: list[tuple[str, Book]]
) -> None:
    market, begun = Market(book), None
    shadow: Audit | None = None
    for what, change in events:
        if what == "shadow" and shadow is None:
            shadow, begun = market.sync.audit(DEPTH), None
        elif what == "cut":
            market.sync.interrupt("disconnected")
        elif what == "fetch":
            fetched = market.fetch(age=change.get(0, 0))
            ends = ends_of(sides(market.history[fetched.update_id]), DEPTH)
            if market.sync.wants_snapshot and market.sync.begin(fetched):
                market.ends = ends
            elif shadow is not None and begun is None:
                shadow.receive(fetched)
                begun = ends
        elif what in ("change", "lose"):
            market.change(change, lost=what == "lose")
        if shadow is not None and begun is not None and not shadow.pause_s(0.0):
            shadow.finish(market.sync)
            shadow.close()
            if shadow.finding is not None:
                assert shadow.finding.drift == 0, "reported without being there"
                market.ends = begun
            shadow = None
        sync = market.sync
        if sync.state == "synced":
            truth = sides(market.history[sync.update_id])
            assert shown(sync, market.ends) == market.ends.known(truth)


@given(full, st.lists(changes, max_size=6), st.lists(changes, max_size=6), changes)
def test_every_planted_difference_is_found_and_mended(
    book: Book, before: list[Book], after: list[Book], planted: Book
) -> None:
    market = Market(book)
    market.begin()
    ends = market.ends
    for change in before:
        market.change(change)
    assert market.sync.levels is not None
    plant = delta(0, 0, planted)
    market.sync.levels.apply_raw(plant.bids_raw, plant.asks_raw)

    shadow = market.sync.audit(DEPTH)
    for change in after:
        market.change(change)
    assume(market.sync.state == "synced")  # else it was crossed, which shows by itself
    shadow.receive(market.fetch(age=min(len(after), 2)))

    assert not shadow.pause_s(0.0)
    both = ends_of(sides(market.history[market.at - min(len(after), 2)]), DEPTH).within(ends)
    ours, truth = both.known(market.sync.levels.texts()), both.known(sides(market.book))
    wrong = {*ours[0]} ^ {*truth[0]} | {*ours[1]} ^ {*truth[1]}
    drift, resyncs = len({price for price, _ in wrong}), market.sync.resyncs
    shadow.finish(market.sync)
    shadow.close()
    assert shadow.finding == Finding(drift, replaced=True)
    assert (market.sync.state, market.sync.resyncs) == ("synced", resyncs + bool(drift))
    assert both.known(market.sync.levels.texts()) == truth


def as_texts(levels: list[tuple[Decimal, Decimal]]) -> list[LevelText]:
    return [(str(price), str(quantity)) for price, quantity in levels]


def test_a_snapshot_that_is_ahead_waits_for_the_stream() -> None:
    market = Market({1: 1, 11: 1})
    market.begin()
    shadow = market.sync.audit(DEPTH)
    market.change({2: 2}, lost=True)

    shadow.receive(market.fetch())
    assert shadow.pause_s(0.0) > 0
    assert shadow.pause_s(5.0) == 0, "but not for ever"
    market.sync.receive(delta(1, 1, {2: 2}))
    assert shadow.pause_s(0.0) == 0
    shadow.finish(market.sync)
    assert shadow.finding == Finding(0, replaced=True)


def test_a_snapshot_older_than_the_book_proves_nothing() -> None:
    market = Market({1: 1, 11: 1})
    market.begin()
    for quantity in (2, 3):
        market.change({1: quantity})
    shadow = market.sync.audit(DEPTH)

    shadow.receive(market.fetch(age=1))
    assert not shadow.pause_s(0.0)
    shadow.finish(market.sync)
    assert shadow.finding is None


def test_a_book_that_is_lost_meanwhile_is_not_compared() -> None:
    market = Market({1: 1, 11: 1})
    market.begin()
    shadow = market.sync.audit(DEPTH)
    shadow.receive(market.fetch())
    market.sync.interrupt("disconnected")

    assert not shadow.pause_s(0.0)
    shadow.finish(market.sync)
    assert shadow.finding is None
    assert market.sync.state == "stale"


def test_what_only_one_of_them_knows_is_not_compared() -> None:
    ours, theirs = sides({1: 9, 5: 1, 11: 1, 15: 9}), sides({2: 9, 5: 1, 11: 1, 14: 9})

    assert count_differing(ours, theirs, Ends()) == 4
    assert count_differing(ours, theirs, Ends(Decimal(2), Decimal(14))) == 2
    assert count_differing(ours, theirs, Ends(Decimal(3), Decimal(13))) == 0


# Without numbers.

WHOLE = BookRules(begins="stream")
TOP = BookRules(begins="stream", depth=3)
FRAMES = BookRules(begins="frame", depth=3)
RULES = pytest.mark.parametrize("rules", [WHOLE, TOP, FRAMES], ids=["whole", "top", "frames"])


@dataclass
class Stream:
    """An exchange's unnumbered stream, and somebody who keeps its book."""

    rules: BookRules
    book: Book
    told: int = 0
    sync: StreamedBook | WholeBook = field(init=False)
    history: list[Book] = field(default_factory=list)

    def __post_init__(self) -> None:
        kind = WholeBook if self.rules.begins == "frame" else StreamedBook
        self.sync = kind(self.rules)
        self.history.append(dict(self.book))
        self.sync.begin(snapshot(self.book, 0, self.rules.depth or 20))

    def change(self, change: Book, *, lost: bool = False) -> None:
        before = self._seen()
        self.book |= change
        self.told += 1
        self.history.append(dict(self.book))
        if lost:
            return
        if self.rules.begins == "frame":
            self.sync.begin(snapshot(self.book, self.told, self.rules.depth or 20))
            return
        after = self._seen()
        # What comes into sight is told, what is pushed out of it is not.
        seen = {
            price: quantity for price, quantity in after.items() if before.get(price) != quantity
        }
        gone = {price: 0 for price, quantity in change.items() if not quantity and price in before}
        self.sync.receive(delta(self.told, self.told, seen | gone))

    def _seen(self) -> Book:
        bids, asks = sides(self.book)
        levels = (*bids[: self.rules.depth], *asks[: self.rules.depth])
        return {int(price): int(quantity) for price, quantity in levels}

    def plant(self, price: int, quantity: int) -> None:
        """Let the kept book differ from the exchange's in one level."""
        bids, asks = sides(self.book | {price: quantity})
        count = self.rules.depth or 20
        told = BookSnapshot(
            exchange="x", symbol=SYMBOL, received_at_ns=0, at_ns=self.told,
            bids_raw=write_levels(bids[:count]), asks_raw=write_levels(asks[:count]),
        )  # fmt: skip
        self.sync.begin(told)


@RULES
@given(book=full, before=st.lists(changes, max_size=5), after=st.lists(changes, max_size=8),
       which=st.integers(0, 8))  # fmt: skip
def test_a_right_book_is_recognised_whichever_state_the_snapshot_shows(
    rules: BookRules, book: Book, before: list[Book], after: list[Book], which: int
) -> None:
    stream = Stream(rules, book)
    for change in before:
        stream.change(change)
    history = stream.sync.audit(10).history
    for change in after:
        stream.change(change)
    shows = stream.history[len(before) + min(which, len(after))]

    seen = history.compare(snapshot(shows, 0, 10))

    assert (seen.drift, seen.moving) == (0, 0)
    (bids, asks), at_ns = history.state(seen.changes)
    told = len(before) + seen.changes
    assert at_ns == told
    depth = rules.depth or 10
    assert (bids, asks) == tuple(side[:depth] for side in sides(stream.history[told]))


@given(full, st.lists(changes, max_size=8), st.integers(0, 7), st.integers(0, 3))
def test_a_snapshot_from_the_middle_of_a_change_is_recognised_too(
    book: Book, after: list[Book], which: int, part: int
) -> None:
    assume(after)
    stream = Stream(WHOLE, book)
    history = stream.sync.audit(20).history
    for change in after:
        stream.change(change)
    stream_key = which % len(after)
    middle = stream.history[stream_key] | dict(list(after[stream_key].items())[:part])

    seen = history.compare(snapshot(middle, 0, 20))
    assert (seen.drift, seen.moving) == (0, 0)


def test_a_change_that_heals_what_was_lost_before_is_not_taken_for_a_proof() -> None:
    stream = Stream(WHOLE, {1: 1, 11: 1})
    history = stream.sync.audit(20).history
    stream.change({1: 2}, lost=True)
    stream.change({1: 3})
    # The book was wrong when this was made, and is right again since.
    seen = history.compare(snapshot(stream.history[1], 0, 20))

    assert seen == (0, 1, 1)
    assert history.compare(snapshot(stream.history[2], 0, 20)) == (0, 0, 1)


@RULES
@given(book=full, after=st.lists(changes, max_size=8), which=st.integers(0, 8),
       planted=st.integers(8, 13))  # fmt: skip
def test_a_planted_difference_that_stays_is_found(
    rules: BookRules, book: Book, after: list[Book], which: int, planted: int
) -> None:
    # Whoever tells whole books heals every difference at once; and levels near the touch, so
    # that the short book shows the one that is planted, stay as they are.
    assume(rules is not FRAMES or not after)
    after = [
        {price: quantity for price, quantity in change.items() if not 7 < price < 14}
        for change in after
    ]
    stream = Stream(rules, book)
    stream.plant(planted, book[planted] + 1)
    history = stream.sync.audit(10).history
    for change in after:
        stream.change(change)
    shows = stream.history[min(which, len(after))]

    seen = history.compare(snapshot(shows, 0, 10))

    assert seen.drift == 1
    assert seen.changes <= len(after)


def test_a_book_that_was_lost_and_begun_again_meanwhile_is_not_compared() -> None:
    stream = Stream(WHOLE, {1: 1, 11: 1})
    audit = stream.sync.audit(20)
    audit.receive(snapshot({1: 1, 11: 1}))

    stream.sync.invalidate("a frame could not be read")
    stream.sync.begin(snapshot({1: 1, 11: 1}))
    audit.finish(stream.sync)

    assert audit.finding is None


def test_one_difference_may_be_the_snapshots_own_and_the_second_is_believed() -> None:
    stream = Stream(WHOLE, {1: 1, 11: 1})
    states = []
    for shown in ({1: 2, 11: 1}, {1: 1, 11: 1}, {1: 2, 11: 1}, {1: 2, 11: 1}):
        audit = stream.sync.audit(20)
        audit.receive(snapshot(shown))
        audit.finish(stream.sync)
        audit.close()
        assert audit.finding is not None
        states.append((audit.finding.drift, stream.sync.state))

    assert states == [(1, "synced"), (0, "synced"), (1, "synced"), (1, "stale")]
    assert stream.sync.reason == "audit: 1 levels differ from the exchange's"


def test_an_audit_of_another_book_changes_nothing() -> None:
    stream, other = Stream(WHOLE, {1: 1, 11: 1}), Stream(WHOLE, {1: 1, 11: 1})
    market, shadowed = Market({1: 1, 11: 1}), Market({1: 1, 11: 1})
    for each in (market, shadowed):
        each.begin()
    audits: list[Audit] = [stream.sync.audit(20), market.sync.audit(20)]
    for audit, book in zip(audits, (other.sync, shadowed.sync), strict=True):
        audit.receive(snapshot({1: 9, 11: 1}))
        audit.finish(book)
        assert audit.finding is None


def test_quantities_that_are_rounded_when_fetched_are_compared_as_roughly() -> None:
    rules = BookRules(begins="stream", depth=3, fetched_decimals=1)
    sync = StreamedBook(rules)
    sync.begin(
        BookSnapshot(
            exchange="x", symbol=SYMBOL, received_at_ns=0,
            bids_raw=write_levels([("2", "1.16"), ("1", "0.04")]), asks_raw=write_levels([]),
        )
    )  # fmt: skip
    history = sync.audit(10).history

    def drift(*quantities: str) -> int:
        told = [("2", quantities[0]), ("1", quantities[1])]
        fetched = BookSnapshot(
            exchange="x", symbol=SYMBOL, received_at_ns=0, bids_raw=write_levels(told),
            asks_raw=write_levels([]),
        )  # fmt: skip
        return history.compare(fetched).drift

    assert drift("1.2", "0.0") == drift("1.1", "0.0") == 0
    assert drift("1.3", "0.0") == 1
    assert drift("1.2", "0.2") == 1


def test_a_closed_audit_is_told_nothing() -> None:
    stream = Stream(WHOLE, {1: 1, 11: 1})
    audit = stream.sync.audit(20)
    audit.receive(snapshot({1: 1, 11: 1}))
    audit.close()
    audit.finish(stream.sync)

    assert audit.finding is None
