"""Book sync: a book shown as synced is the exchange's book, whatever was lost on the way."""

from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import Raw
from tests import events
from tests.paths import both_paths  # noqa: F401 (each test runs on both)

from penstock.books.sequenced import BUFFERED_DELTAS, SequencedBook
from penstock.market.events import BookDelta, BookSnapshot
from penstock.market.levels import write_levels
from penstock.market.symbol import Symbol

SYMBOL = Symbol("BTC", "USDT")
NOTHING = Raw(b"[]")


def delta(first: int, final: int, bids: Raw, asks: Raw = NOTHING) -> BookDelta:
    return events.delta(first, final, bids_raw=bids, asks_raw=asks)


def snapshot(update_id: int, bids: Raw = NOTHING, asks: Raw = NOTHING) -> BookSnapshot:
    return events.snapshot(update_id, bids_raw=bids, asks_raw=asks)


def one(update_id: int) -> Raw:
    """The level that update ``update_id`` sets, on a price of its own."""
    return write_levels([(str(update_id % 7 + 1), str(update_id))])


def run(first: int, final: int) -> BookDelta:
    """A delta of several updates: each price at its last value."""
    levels: dict[str, str] = {}
    for update_id in range(first, final + 1):
        levels[str(update_id % 7 + 1)] = str(update_id)
    return delta(first, final, write_levels(levels.items()))


def truth(update_id: int) -> dict[str, str]:
    return {str(n % 7 + 1): str(n) for n in range(max(1, update_id - 6), update_id + 1)}


def held(sync: SequencedBook) -> dict[str, str]:
    assert sync.levels is not None
    return dict(sync.levels.texts()[0])


def true_snapshot(update_id: int) -> BookSnapshot:
    return snapshot(update_id, write_levels(truth(update_id).items()))


@dataclass
class Exchange:
    """An exchange whose every update sets one level; a stream of it, and snapshots behind it."""

    at: int = 0
    sync: SequencedBook = field(default_factory=SequencedBook)

    def emit(self, size: int, *, lost: bool) -> None:
        first, self.at = self.at + 1, self.at + size
        if not lost:
            self.sync.receive(run(first, self.at))

    def fetch(self, age: int) -> None:
        if self.sync.wants_snapshot:
            self.sync.begin(true_snapshot(max(0, self.at - age)))


steps = st.lists(
    st.one_of(
        st.tuples(st.just("emit"), st.integers(1, 5)),
        st.tuples(st.just("lose"), st.integers(1, 5)),
        st.tuples(st.just("fetch"), st.integers(0, 12)),
        st.tuples(st.just("cut"), st.just(0)),
    ),
    max_size=60,
)


@given(steps)
def test_a_synced_book_is_the_exchanges_book(events: list[tuple[str, int]]) -> None:
    exchange = Exchange()
    for what, amount in events:
        if what == "emit":
            exchange.emit(amount, lost=False)
        elif what == "lose":
            exchange.emit(amount, lost=True)
        elif what == "fetch":
            exchange.fetch(amount)
        else:
            exchange.sync.interrupt("disconnected")
        sync = exchange.sync
        if sync.state == "synced":
            assert held(sync) == truth(sync.update_id)
            assert sync.reason == ""
        else:
            assert sync.reason


@given(st.lists(st.integers(1, 5), min_size=1, max_size=20), st.integers(0, 200))
def test_a_fresh_snapshot_joins_wherever_it_falls(sizes: list[int], back: int) -> None:
    exchange = Exchange()
    for size in sizes:
        exchange.emit(size, lost=False)

    # Anything from just before the first delta to the newest joins; both cases of the exchange's
    # rule (the delta begins right after the snapshot, the snapshot lies inside a delta) occur.
    assert exchange.sync.begin(true_snapshot(max(0, exchange.at - back)))
    assert exchange.sync.update_id == exchange.at
    assert held(exchange.sync) == truth(exchange.at)


def test_nothing_is_asked_for_before_the_stream_runs() -> None:
    sync = SequencedBook()
    assert not sync.wants_snapshot

    sync.receive(run(5, 6))

    assert sync.wants_snapshot
    assert (sync.state, sync.reason) == ("syncing", "waiting for a snapshot")


def test_a_snapshot_older_than_the_first_delta_is_not_enough() -> None:
    sync = SequencedBook()
    sync.receive(run(10, 12))

    assert not sync.begin(true_snapshot(8))
    assert sync.wants_snapshot
    assert sync.begin(true_snapshot(9))


@pytest.mark.parametrize("lost", range(4, 9))
def test_a_hole_among_the_deltas_that_wait_for_a_snapshot_is_never_passed_over(lost: int) -> None:
    sync = SequencedBook()
    for update_id in range(3, 10):
        if update_id != lost:
            sync.receive(run(update_id, update_id))

    # From before the hole no way leads across it; from behind it the rest follows.
    for update_id in range(2, lost):
        assert not sync.begin(true_snapshot(update_id))
        assert sync.state != "synced"
    assert sync.begin(true_snapshot(lost))
    assert (sync.state, sync.update_id, held(sync)) == ("synced", 9, truth(9))
    assert not sync.resyncs  # it was never said to be synced before


def test_a_gap_makes_the_book_stale_until_a_snapshot_joins() -> None:
    sync = SequencedBook()
    sync.receive(run(1, 2))
    sync.begin(true_snapshot(0))
    sync.receive(run(5, 6))

    assert (sync.state, sync.resyncs, sync.wants_snapshot) == ("stale", 1, True)
    assert "2 updates after 2" in sync.reason
    assert sync.begin(true_snapshot(4))
    assert held(sync) == truth(6)


def test_a_delta_seen_twice_changes_nothing() -> None:
    sync = SequencedBook()
    sync.receive(run(1, 2))
    sync.begin(true_snapshot(0))
    sync.receive(run(3, 4))
    sync.receive(run(1, 2))
    sync.receive(run(3, 4))

    assert (sync.state, sync.update_id) == ("synced", 4)
    assert held(sync) == truth(4)


def test_levels_that_are_no_numbers_make_the_book_stale() -> None:
    sync = SequencedBook()
    sync.receive(run(1, 2))
    sync.begin(true_snapshot(0))
    sync.receive(delta(3, 3, Raw(b'[["NaN","1"]]')))

    assert sync.state == "stale"
    assert "NaN" in sync.reason


def test_a_lone_point_is_not_taken_for_zero() -> None:
    sync = SequencedBook()
    sync.receive(run(1, 2))
    sync.begin(true_snapshot(0))
    sync.receive(delta(3, 3, Raw(b'[["2","."]]')))

    assert sync.state == "stale"
    assert "not a plain number" in sync.reason


def test_a_single_update_that_was_lost_is_noticed() -> None:
    exchange = Exchange()
    exchange.emit(3, lost=False)
    exchange.fetch(0)
    assert exchange.sync.state == "synced"

    exchange.emit(1, lost=True)
    exchange.emit(1, lost=False)

    assert (exchange.sync.state, exchange.sync.reason) == (
        "stale",
        "gap: 1 updates after 3 were lost",
    )


def test_a_crossed_book_is_never_shown_as_synced() -> None:
    sync = SequencedBook()
    sync.receive(run(1, 1))
    assert sync.begin(snapshot(0, asks=write_levels([("100", "1")])))

    sync.receive(delta(2, 2, write_levels([("100", "1")])))

    assert sync.state == "stale"
    assert "crossed" in sync.reason


def test_a_snapshot_that_its_deltas_contradict_starts_nothing() -> None:
    sync = SequencedBook()
    sync.receive(delta(1, 1, write_levels([("100", "1")])))
    sync.receive(run(2, 2))

    assert not sync.begin(snapshot(0, asks=write_levels([("100", "1")])))
    assert (sync.state, sync.wants_snapshot) == ("stale", True)
    assert sync.begin(true_snapshot(1))


def test_the_buffer_is_bounded_and_a_snapshot_must_then_be_newer() -> None:
    sync = SequencedBook()
    for update_id in range(1, BUFFERED_DELTAS + 101):
        sync.receive(run(update_id, update_id))

    assert not sync.begin(true_snapshot(50))
    assert sync.begin(true_snapshot(100))
    assert held(sync) == truth(BUFFERED_DELTAS + 100)


def test_without_levels_only_the_ids_are_judged() -> None:
    sync = SequencedBook(keep_levels=False)
    sync.receive(delta(1, 2, Raw(b"never read")))
    sync.begin(snapshot(0))
    sync.receive(delta(3, 3, Raw(b"never read")))
    before = (sync.state, sync.update_id)
    sync.receive(delta(9, 9, Raw(b"never read")))

    assert before == ("synced", 3)
    assert sync.state == "stale"


copies = st.lists(
    st.one_of(
        st.tuples(st.just("emit"), st.integers(1, 5)),
        st.tuples(st.sampled_from(["old", "new"]), st.integers(1, 4)),
        st.tuples(st.just("join"), st.just(0)),
    ),
    max_size=60,
)


@given(st.integers(0, 9), copies)
def test_a_book_that_joins_from_another_connections_is_the_exchanges_book(
    begun_at: int, events: list[tuple[str, int]]
) -> None:
    old, new, at = SequencedBook(), SequencedBook(), begun_at
    old.receive(run(at + 1, at + 1))
    assert old.begin(true_snapshot(at))
    at += 1
    waiting: dict[str, list[BookDelta]] = {"old": [], "new": []}
    for what, amount in events:
        if what == "emit":
            for queue in waiting.values():
                queue.append(run(at + 1, at + amount))
            at += amount
        elif what == "join":
            new.join_from(old)
        else:  # the connections deliver at their own speed
            for each in waiting[what][:amount]:
                (old if what == "old" else new).receive(each)
            del waiting[what][:amount]
        assert old.state == "synced"
        if new.state == "synced":
            assert held(new) == truth(new.update_id)
            assert not new.wants_snapshot


def test_a_book_joins_from_another_as_soon_as_that_reaches_its_deltas() -> None:
    old, new = SequencedBook(), SequencedBook()
    old.receive(run(1, 2))
    old.begin(true_snapshot(0))

    assert not new.join_from(old), "nothing tells that its own stream runs"
    new.receive(run(5, 6))
    assert not new.join_from(old), "3 and 4 are in neither"
    assert (new.state, new.update_id) == ("syncing", 0), "it is left as it was"
    old.receive(run(3, 4))
    assert new.join_from(old)
    assert (new.state, new.update_id, held(new)) == ("synced", 6, truth(6))
    assert held(old) == truth(4), "the other's book is left as it was"
    old.interrupt("cut")
    assert not SequencedBook().join_from(old)


@given(steps, st.integers(1, 8), st.integers(-3, 8))
def test_a_book_may_begin_from_another_of_the_same_market(
    events: list[tuple[str, int]], heard: int, behind: int
) -> None:
    primary = Exchange()
    primary.emit(1, lost=False)
    primary.fetch(0)
    for what, amount in events:
        if what == "emit":
            primary.emit(amount, lost=False)
    # The other stream runs a little behind or ahead; both carry the same updates.
    other = SequencedBook()
    first = max(1, primary.at - behind + 1)
    for update_id in range(first, first + heard):
        other.receive(run(update_id, update_id))

    joined = other.join_from(primary.sync)

    assert joined == (first <= primary.at + 1)
    assume(joined)
    assert other.side_depths == primary.sync.side_depths, "it is known no further than the other"
    assert other.update_id == max(primary.at, first + heard - 1)
    assert held(other) == truth(other.update_id)
    other.receive(run(other.update_id + 1, other.update_id + 1))
    assert held(primary.sync) == truth(primary.at), "the first is left alone"


def test_a_book_does_not_begin_from_one_that_is_not_believed_or_does_not_reach() -> None:
    primary, other = Exchange(), SequencedBook()
    primary.emit(2, lost=False)
    other.receive(run(9, 9))
    assert not other.join_from(primary.sync)
    primary.fetch(0)

    assert not other.join_from(primary.sync)
    assert (other.state, other.wants_snapshot) == ("syncing", True)
    assert not other.join_from(SequencedBook(keep_levels=False))
