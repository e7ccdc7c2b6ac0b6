"""Redundant connections: what is lost on one and comes on another is not lost."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.books.book import Finding
from penstock.books.commands import FetchSnapshot
from penstock.books.events import AuditDone
from penstock.market.events import BookDelta, Disconnect, Trade
from penstock.streaming.commands import Send, Subscription
from penstock.streaming.shard import FILL_WITHIN_NS, SHARD, Shard
from penstock.streaming.shard_connection import Plan

from .toys import SECOND_NS, A, NumberedDialect, StreamedDialect, frame, rest_book, truth

STEP_NS = SECOND_NS // 10
WITHIN = FILL_WITHIN_NS // STEP_NS - 2
"""Steps that one connection may lag behind another."""


@dataclass
class Pair:
    """A shard of two connections, begun at update 10, and all it asked for since."""

    dialect: type[NumberedDialect] = NumberedDialect
    channels: Sequence[str] = ("trades", "book_deltas")
    now_ns: int = SECOND_NS
    fetched: list[FetchSnapshot] = field(default_factory=list)

    def __post_init__(self) -> None:
        wanted = [Subscription(channel, (A,)) for channel in self.channels]
        plan = Plan(redundancy=2, rotate_after_s=10_000.0)
        self.shard = Shard("toy", self.dialect, wanted, lambda: 0.5, plan)
        self.shard.start(self.now_ns)
        for number in (1, 2):
            self.shard.opened(number, self.now_ns)
            self.answer()
        begin = "delta" if self.dialect is NumberedDialect else "whole"
        self.bring(1, frame(begin, A.slug, 10))
        if self.dialect is NumberedDialect:
            self.shard.snapshot_arrived(1, rest_book(A, 10), self.now_ns)
        self.bring(2, frame(begin, A.slug, 10))
        self.answer()
        self.fetched.clear()
        self.shard.take_events()
        assert [member.synced_books for member in self.shard.members.values()] == [1, 1]

    def answer(self) -> None:
        for _ in range(20):
            for number, command in self.shard.take_commands():
                if isinstance(command, Send):
                    self.bring(number, frame("ack", int(command.text.partition(":")[0])))
                elif isinstance(command, FetchSnapshot):
                    self.fetched.append(command)
            self.wake()

    def wake(self) -> None:
        self.now_ns += STEP_NS
        for number in (SHARD, *self.shard.members):
            self.shard.woken(number, self.now_ns)

    def bring(self, number: int, *frames: bytes) -> None:
        self.shard.received_many(number, frames, [self.now_ns] * len(frames))

    def levels(self) -> dict[str, str]:
        book = self.shard.books[A].levels
        assert book is not None
        return dict(book.texts()[0])


# For each of a sequence: on which connections it is lost (never on both).
losses = st.lists(st.sampled_from([None, None, None, 1, 2]), min_size=1, max_size=60)
# Before each step, how many frames each connection brings of those it owes.
paces = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=60)


@settings(max_examples=30)
@given(losses, paces)
def test_a_book_is_never_distrusted_while_one_of_two_connections_brings_each_delta(
    lost: list[int | None], pace: list[tuple[int, int]]
) -> None:
    pair = Pair()
    owed = {
        member: [
            (11 + at, word)
            for at, gone in enumerate(lost)
            for word in ("trade", "delta")
            if gone != member
        ]
        for member in (1, 2)
    }
    last, since, seen = 10 + len(lost), 0, set[int]()
    while owed[1] or owed[2]:
        # Neither lags by more than what is waited for.
        steps = pace.pop(0) if pace and since < WITHIN else (4, 4)
        since = 0 if steps == (4, 4) else since + 1
        for member, many in zip((1, 2), steps, strict=True):
            some, owed[member] = owed[member][:many], owed[member][many:]
            pair.bring(member, *(frame(word, A.slug, number) for number, word in some))
        assert pair.shard.books[A].state == "synced"
        assert pair.levels() == truth(pair.shard.books[A].update_id)
        seen |= {each.id for each in pair.shard.take_events() if isinstance(each, Trade)}
        pair.wake()
    pair.wake()
    for number, each in pair.shard.members.items():
        book = each.connection.books[A]
        assert (book.state, book.resyncs) == ("synced", 0)
        # A tail that only the other brought shows when something follows it.
        assert book.update_id >= last - sum(gone == number for gone in lost)
    pair.answer()

    assert seen == set(range(11, last + 1)), "a hole in trades is filled as well"
    assert not pair.fetched
    assert not pair.shard.stats.reconnects


def test_a_delta_that_came_on_neither_costs_a_snapshot_as_soon_as_both_have_passed_it() -> None:
    pair = Pair()
    pair.bring(1, frame("delta", A.slug, 12))
    assert pair.shard.books[A].state == "synced", "the other may bring it"
    pair.bring(2, frame("delta", A.slug, 12))
    assert (pair.shard.books[A].state, pair.shard.books[A].reason) == (
        "stale", "gap: 1 updates after 10 were lost",
    )  # fmt: skip
    pair.answer()

    assert [each.symbol for each in pair.fetched] == [A], "one snapshot is for both"


def test_a_delta_is_not_waited_for_longer_than_two_seconds() -> None:
    pair = Pair()
    pair.bring(1, frame("delta", A.slug, 12))
    waited = 0
    while pair.shard.books[A].state == "synced":
        pair.wake()
        waited += STEP_NS

    assert waited <= FILL_WITHIN_NS + 2 * STEP_NS


def test_without_the_other_connection_a_delta_is_not_waited_for_at_all() -> None:
    pair = Pair()
    pair.shard.closed(2, "cut", pair.now_ns)
    pair.bring(1, frame("delta", A.slug, 12))

    assert pair.shard.books[A].state == "stale"


def test_a_delta_is_no_longer_waited_for_when_the_other_connection_ends() -> None:
    pair = Pair()
    pair.bring(1, frame("delta", A.slug, 12))
    pair.shard.closed(2, "cut", pair.now_ns)

    assert pair.shard.books[A].state == "stale"


def test_what_an_audit_compares_with_is_given_the_filled_sequence() -> None:
    pair = Pair()
    sync = pair.shard.books[A]
    audit = sync.audit(10)
    pair.bring(1, frame("delta", A.slug, 11), frame("delta", A.slug, 13))
    pair.bring(2, *(frame("delta", A.slug, number) for number in (11, 12, 13)))

    assert sync.update_id == 13
    audit.receive(rest_book(A, 10))
    pair.shard.book_event(A, AuditDone(audit), pair.now_ns)
    assert audit.finding == Finding(0, replaced=True)
    assert sync.update_id == 13


def test_a_book_without_numbers_is_taken_from_the_connection_on_which_it_still_stands() -> None:
    pair = Pair(StreamedDialect)
    pair.bring(2, frame("delta", A.slug, 11), frame("delta", A.slug, 12))
    # A change of the past contradicts what the leading connection's book was told.
    pair.bring(1, frame("delta", A.slug, 12), frame("delta", A.slug, 11))

    assert pair.shard.primary.number == 2
    assert pair.shard.books[A].state == "synced"
    assert pair.levels() == truth(12)
    events = pair.shard.take_events()
    assert not [each for each in events if isinstance(each, Disconnect)], "nothing is missing"
    assert [type(each).__name__ for each in events[-1:]] == ["BookSnapshot"], "to go on from"


def test_with_one_connection_nothing_is_kept_for_others() -> None:
    shard = Shard("toy", NumberedDialect, [Subscription("book_deltas", (A,))], lambda: 0.5)
    shard.start(0)
    shard.opened(1, 0)
    shard.received_many(1, [frame("delta", A.slug, 1)], [0])
    shard.snapshot_arrived(1, rest_book(A, 1), 0)
    shard.received_many(1, [frame("delta", A.slug, 3)], [1])

    assert shard.books[A].state == "stale"
    assert any(isinstance(each, BookDelta) for each in shard.take_events())
