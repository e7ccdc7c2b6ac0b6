"""The connection machine: whatever happens, in whatever order, it ends up streaming again."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests import events
from tests.paths import both_paths  # noqa: F401 (each test runs on both)

from penstock.books.commands import FetchSnapshot
from penstock.books.rules import BookRules, Checksum
from penstock.market.events import BookDelta, BookSnapshot, Event, Trade
from penstock.market.symbol import Symbol
from penstock.resilience.backoff import Backoff
from penstock.streaming.commands import (
    Close,
    Open,
    Rotate,
    Send,
    Subscription,
    WakeAt,
)
from penstock.streaming.connection import QUARANTINED, Connection
from penstock.streaming.dialect import (
    Ack,
    Malformed,
    Notice,
    Received,
    Refusal,
    StreamLimits,
)

A, B = Symbol("A", "USDT"), Symbol("B", "USDT")
NOTHING = Raw(b"[]")
SECOND_NS = 1_000_000_000


class ToyDialect:
    """Frames are JSON arrays whose first word says what they are."""

    limits = StreamLimits(
        streams_per_connection=10, names_per_message=2, messages_per_second=5,
        connects=300, connects_period_s=300.0, lifetime_s=None, heartbeat_s=20.0,
    )  # fmt: skip
    books = BookRules()
    channels: Sequence[str] = ("trades", "book_deltas")

    def url(self, base: str) -> str:
        return base

    def streams(self, channel: str, symbols: Sequence[Symbol]) -> list[str]:
        return [f"{symbol.slug}@{channel}" for symbol in symbols]

    def subscribe(self, names: Sequence[str], request_id: int) -> str:
        return f"{request_id}:{','.join(names)}"

    def unsubscribe(self, names: Sequence[str], request_id: int) -> str:
        raise AssertionError("nobody unsubscribes here")

    def read(self, frame: bytes | str, received_at_ns: int) -> list[Received]:
        try:
            match msgspec.json.decode(frame):
                case ["trade", str(slug), int(number)]:
                    return [trade(Symbol.parse(slug), number)]
                case ["delta", str(slug), int(first), int(final)]:
                    return [delta(Symbol.parse(slug), first, final)]
                case ["ack", int(number)]:
                    return [Ack(number)]
                case ["refused", int(number)]:
                    return [Refusal(number, 2, "no such stream")]
                case ["closing"]:
                    return [Notice("closing", None)]
        except msgspec.DecodeError:
            pass
        return [Malformed("not_json", "what is this", str(frame))]


class HastyDialect(ToyDialect):
    """Reads many frames together, if all of them are events."""

    def read_many(
        self, frames: Sequence[bytes | str], received_at_ns: Sequence[int]
    ) -> list[Event] | None:
        said = [self.read(*each)[0] for each in zip(frames, received_at_ns, strict=True)]
        events = [each for each in said if not isinstance(each, tuple)]
        return events if len(events) == len(frames) else None


def trade(symbol: Symbol, number: int) -> Trade:
    return events.trade(number, symbol, received_at_ns=0)


def delta(symbol: Symbol, first: int, final: int) -> BookDelta:
    return events.delta(first, final, symbol)


def snapshot(symbol: Symbol, update_id: int) -> BookSnapshot:
    return events.snapshot(update_id, symbol)


def frame(*words: object) -> bytes:
    return msgspec.json.encode(words)


def connection(*subscriptions: Subscription) -> Connection:
    wanted = subscriptions or (
        Subscription("trades", (A, B)),
        Subscription("book_deltas", (A, B)),
    )
    backoff = Backoff(first_s=1.0, multiplier=2.0, longest_s=8.0, jitter=0.5)
    return Connection(ToyDialect(), wanted, lambda: 0.0, backoff=backoff)


def connected() -> Connection:
    machine = connection()
    machine.start()
    machine.opened(0)
    machine.woken(SECOND_NS)
    for number in (1, 2):
        machine.received(frame("ack", number), 0)
    machine.take_commands()
    return machine


def test_it_opens_then_asks_for_every_stream_within_the_message_limit() -> None:
    machine = connection()
    machine.start()
    assert machine.take_commands() == [Open()]

    machine.opened(0)
    first = machine.take_commands()
    machine.woken(SECOND_NS // 4)
    second = machine.take_commands()

    assert first[0] == Send("1:a_usdt@trades,b_usdt@trades")
    assert first[1] == WakeAt(SECOND_NS // 4), "no burst: four messages a second at most"
    assert second[0] == Send("2:a_usdt@book_deltas,b_usdt@book_deltas")


def test_events_are_delivered_in_order() -> None:
    machine = connected()
    machine.received(frame("trade", "a_usdt", 7), 0)
    machine.received(frame("delta", "b_usdt", 1, 2), 0)
    machine.received(frame("trade", "b_usdt", 9), 0)

    assert len(machine.events) == 3
    assert machine.take_events() == [trade(A, 7), delta(B, 1, 2), trade(B, 9)]
    assert machine.events == []


frames_of_all_kinds = st.lists(
    st.sampled_from(
        [frame("trade", "a_usdt", 1), frame("delta", "a_usdt", 1, 2),
         frame("delta", "a_usdt", 3, 4), frame("delta", "b_usdt", 1, 2),
         frame("delta", "b_usdt", 7, 9), frame("ack", 1), frame("refused", 2), frame("closing"),
         b"rubbish"]
    ),
    max_size=12,
)  # fmt: skip


@given(frames_of_all_kinds, st.integers(0, 12), st.sampled_from([ToyDialect, HastyDialect]))
def test_frames_that_come_together_do_what_they_do_one_by_one(
    frames: list[bytes], cut: int, dialect: type[ToyDialect]
) -> None:
    wanted = [Subscription("trades", (A, B)), Subscription("book_deltas", (A, B))]
    alone = Connection(ToyDialect(), wanted, lambda: 0.0)
    together = Connection(dialect(), wanted, lambda: 0.0)
    for machine in (alone, together):
        machine.start()
        machine.opened(0)
    for number, each in enumerate(frames):
        alone.received(each, number)
    for some in (range(min(cut, len(frames))), range(cut, len(frames))):
        together.received_many([frames[number] for number in some], list(some))

    assert together.events == alone.events
    assert together.commands == alone.commands
    assert together.malformed == alone.malformed
    assert list(together.refusals) == list(alone.refusals)
    for symbol in (A, B):
        assert together.books[symbol].reason == alone.books[symbol].reason


def test_a_book_is_fetched_once_when_its_stream_runs() -> None:
    machine = connected()
    machine.received(frame("delta", "a_usdt", 5, 6), 0)
    machine.received(frame("delta", "a_usdt", 7, 8), 0)
    assert machine.take_commands() == [FetchSnapshot(A, 0.0)]

    machine.snapshot_arrived(snapshot(A, 4))

    assert machine.books[A].state == "synced"
    assert machine.books[B].state == "syncing"
    assert machine.take_commands() == []
    assert snapshot(A, 4) in machine.take_events(), "the baseline is recorded too"


def test_while_a_book_is_fetched_again_every_delta_is_delivered_all_the_same() -> None:
    machine = connected()
    machine.received(frame("delta", "a_usdt", 1, 2), 0)
    machine.snapshot_arrived(snapshot(A, 1))
    machine.take_events()

    for first in range(5, 50):
        machine.received(frame("delta", "a_usdt", first, first), first)
    assert machine.books[A].state == "stale"
    assert machine.take_events() == [delta(A, first, first) for first in range(5, 50)]
    machine.snapshot_arrived(snapshot(A, 30))

    assert (machine.books[A].state, machine.books[A].update_id) == ("synced", 49)
    assert machine.take_events() == [snapshot(A, 30)]


def test_snapshots_that_do_not_join_are_asked_for_ever_more_slowly() -> None:
    machine = connected()
    machine.received(frame("delta", "a_usdt", 50, 60), 0)
    pauses = []
    for _ in range(4):
        [command] = machine.take_commands()
        assert isinstance(command, FetchSnapshot)
        pauses.append(command.after_s)
        machine.snapshot_arrived(snapshot(A, 4))
    machine.take_commands()
    machine.snapshot_failed(A)

    assert pauses == [0.0, 1.0, 2.0, 4.0]
    assert machine.take_commands() == [FetchSnapshot(A, 8.0)]


def test_a_gap_in_one_book_asks_for_that_book_alone() -> None:
    machine = connected()
    for slug, symbol in (("a_usdt", A), ("b_usdt", B)):
        machine.received(frame("delta", slug, 1, 2), 0)
        machine.snapshot_arrived(snapshot(symbol, 0))
    machine.take_commands()

    machine.received(frame("delta", "a_usdt", 9, 9), 0)

    assert machine.take_commands() == [FetchSnapshot(A, 0.0, lost=True)]
    assert (machine.books[A].state, machine.books[B].state) == ("stale", "synced")


def test_a_lost_connection_is_opened_again_ever_more_slowly() -> None:
    machine = connection()
    machine.start()
    machine.take_commands()
    waits, now_ns = [], 0
    for _ in range(5):
        machine.closed("refused", now_ns)
        [wake] = machine.take_commands()
        assert isinstance(wake, WakeAt)
        waits.append((wake.at_ns - now_ns) // SECOND_NS)
        machine.woken(wake.at_ns - 1)
        assert machine.take_commands() == [], "not before its time"
        now_ns = wake.at_ns
        machine.woken(now_ns)
        assert machine.take_commands() == [Open()]

    assert waits == [1, 2, 4, 8, 8]
    assert machine.reconnects == {"refused": 5}


def test_the_time_allowed_is_new_once_everything_is_acknowledged() -> None:
    machine = connected()
    machine.closed("cut", 0)
    machine.woken(SECOND_NS)
    machine.opened(SECOND_NS)
    machine.woken(2 * SECOND_NS)
    for number in (3, 4):
        machine.received(frame("ack", number), 0)
    machine.take_commands()

    machine.closed("cut", 10 * SECOND_NS)

    assert machine.take_commands() == [WakeAt(11 * SECOND_NS)]


def test_every_book_is_stale_while_disconnected() -> None:
    machine = connected()
    machine.received(frame("delta", "a_usdt", 1, 2), 0)
    machine.snapshot_arrived(snapshot(A, 0))
    machine.closed("cut", 0)

    assert machine.books[A].state == "stale"
    assert "cut" in machine.books[A].reason


def test_a_missing_acknowledgement_closes_the_connection() -> None:
    machine = connection(Subscription("trades", (A,)))
    machine.start()
    machine.opened(0)
    machine.take_commands()
    machine.woken(5 * SECOND_NS - 1)
    assert machine.take_commands() == [WakeAt(5 * SECOND_NS)]
    machine.woken(5 * SECOND_NS)

    assert machine.take_commands() == [Close("no acknowledgement")]


def test_a_refusal_is_kept_with_the_exchanges_words() -> None:
    machine = connected()
    machine.received(frame("refused", 1), 0)

    assert list(machine.refusals) == [Refusal(1, 2, "no such stream")]


class Wordy(ToyDialect):
    limits = replace(ToyDialect.limits, names_per_message=100)


def test_one_bad_symbol_among_fifty_is_found_and_the_others_are_streamed() -> None:
    symbols = tuple(Symbol(f"S{number}", "USDT") for number in range(51))
    machine = Connection(Wordy(), [Subscription("trades", symbols)], lambda: 0.0)
    machine.start()
    machine.opened(0)
    granted, asked, at_ns = set[str](), 0, 0
    while at_ns < 8 * SECOND_NS:
        for command in machine.take_commands():
            if isinstance(command, Send):
                number, _, names = command.text.partition(":")
                bad, asked = "s17_usdt@trades" in names.split(","), asked + 1
                machine.received(frame("refused" if bad else "ack", int(number)), at_ns)
                granted |= set() if bad else set(names.split(","))
        at_ns += SECOND_NS // 4
        machine.woken(at_ns)

    assert granted == {f"{each.slug}@trades" for each in symbols} - {"s17_usdt@trades"}
    assert asked <= 2 * 6 + 6, "the fault is found by halves, and asked for ever more slowly"
    assert machine.state == "connected"
    assert {refusal.words for refusal in machine.refusals} == {"no such stream"}


def test_a_malformed_frame_is_counted_and_kept_and_harms_nobody() -> None:
    machine = connected()
    for n in range(QUARANTINED + 5):
        machine.received(f"rubbish {n}", 0)
    machine.received(frame("trade", "a_usdt", 1), 0)

    assert machine.malformed == {"not_json": QUARANTINED + 5}
    assert len(machine.quarantine) == QUARANTINED
    assert machine.take_events() == [trade(A, 1)]


def test_an_announced_shutdown_asks_for_another_connection() -> None:
    machine = connected()
    machine.received(frame("closing"), 0)

    assert machine.take_commands() == [Rotate("the exchange announced its shutdown")]


def test_once_stopped_it_stays_stopped() -> None:
    machine = connected()
    machine.stop()
    assert machine.take_commands() == [Close("stopped")]

    machine.closed("stopped", 0)
    machine.woken(10**12)

    assert machine.take_commands() == []
    assert machine.state == "disconnected"


class InStream(ToyDialect):
    """Its books come in their streams, and every stream is answered by itself."""

    limits = replace(ToyDialect.limits, mixed_channels=False, ping="hello?", ping_every_s=60.0)
    books = BookRules(
        begins="stream",
        depth=10,
        checksum=Checksum(10, lambda _: "x", lambda bids, _: len(bids) // 2),
    )

    def unsubscribe(self, names: Sequence[str], request_id: int) -> str:
        return f"{request_id}:-{','.join(names)}"

    def read(self, frame: bytes | str, received_at_ns: int) -> list[Received]:
        match msgspec.json.decode(frame):
            case ["ack", int(number), str(name)]:
                return [Ack(number, (name,))]
            case ["refused", int(number), str(name)]:
                return [Refusal(number, "", "not here", (name,))]
            case ["book", str(kind), str(slug), str(bids), int(proof)]:
                event = BookSnapshot if kind == "whole" else BookDelta
                return [
                    event(
                        exchange="toy", symbol=Symbol.parse(slug), received_at_ns=received_at_ns,
                        at_ns=0, bids_raw=Raw(bids.encode()), asks_raw=NOTHING, checksum=proof,
                    )
                ]  # fmt: skip
        return super().read(frame, received_at_ns)


BOOK_A, BOOK_B = "a_usdt@book_deltas", "b_usdt@book_deltas"


def in_stream() -> Connection:
    """Connected, with A's book begun and B's not."""
    backoff = Backoff(first_s=1.0, multiplier=2.0, longest_s=8.0, jitter=0.5)
    wanted = [Subscription("trades", (A,)), Subscription("book_deltas", (A, B))]
    machine = Connection(InStream(), wanted, lambda: 0.0, backoff=backoff)
    machine.start()
    machine.opened(0)
    machine.woken(SECOND_NS)
    for name in ("a_usdt@trades", BOOK_A, BOOK_B):
        machine.received(frame("ack", 1 if "trades" in name else 2, name), SECOND_NS)
    machine.received(frame("book", "whole", "a_usdt", "[]", 0), SECOND_NS)
    return machine


def sent(machine: Connection) -> list[str]:
    return [command.text for command in machine.take_commands() if isinstance(command, Send)]


def test_each_channel_is_asked_for_by_a_message_of_its_own() -> None:
    assert sent(in_stream()) == ["1:a_usdt@trades", f"2:{BOOK_A},{BOOK_B}"]


def test_a_book_that_its_stream_begins_asks_for_nothing() -> None:
    machine = in_stream()
    machine.take_commands()
    machine.received(frame("book", "whole", "b_usdt", "[]", 0), SECOND_NS)
    machine.received(frame("book", "change", "b_usdt", '[["1.0","1.0"]]', 1), SECOND_NS)

    assert [machine.books[each].state for each in (A, B)] == ["synced", "synced"]
    assert machine.take_commands() == []
    assert len(machine.take_events()) == 3


def test_a_checksum_that_differs_resubscribes_that_stream_alone() -> None:
    machine = in_stream()
    machine.received(frame("book", "whole", "b_usdt", "[]", 0), SECOND_NS)
    machine.take_commands()
    machine.received(frame("book", "change", "a_usdt", "[]", 9), 2 * SECOND_NS)
    machine.received(frame("book", "change", "a_usdt", "[]", 9), 2 * SECOND_NS)

    assert sent(machine) == [f"3:-{BOOK_A}"]
    machine.woken(3 * SECOND_NS)
    assert sent(machine) == [f"4:{BOOK_A}"]
    assert [machine.books[each].state for each in (A, B)] == ["stale", "synced"]
    machine.received(frame("ack", 4, BOOK_A), 3 * SECOND_NS)
    machine.received(frame("book", "whole", "a_usdt", "[]", 0), 3 * SECOND_NS)
    assert machine.books[A].state == "synced"
    machine.woken(50 * SECOND_NS)
    assert sent(machine) == []


def test_a_book_that_keeps_going_wrong_is_begun_ever_more_slowly() -> None:
    machine = in_stream()
    machine.received(frame("book", "whole", "b_usdt", "[]", 0), SECOND_NS)
    waits, at_ns = [], 2 * SECOND_NS
    for _ in range(4):
        machine.take_commands()
        machine.received(frame("book", "change", "a_usdt", "[]", 9), at_ns)
        started_ns = at_ns
        while not (asked := [text for text in sent(machine) if not text.startswith("-", 2)]):
            at_ns += SECOND_NS
            machine.woken(at_ns)
        waits.append((at_ns - started_ns) // SECOND_NS)
        machine.received(frame("ack", int(asked[0][0]), BOOK_A), at_ns)
        machine.received(frame("book", "whole", "a_usdt", "[]", 0), at_ns)

    assert waits == sorted(waits)
    assert waits[-1] >= 4 > waits[0]


def test_a_book_that_stood_for_a_while_is_begun_again_at_once() -> None:
    machine = in_stream()
    machine.received(frame("book", "whole", "b_usdt", "[]", 0), SECOND_NS)
    for at_s in (2, 10, 20, 30):
        machine.take_commands()
        machine.received(frame("book", "change", "a_usdt", "[]", 9), at_s * SECOND_NS)
        assert len(sent(machine)) == 1
        machine.received(frame("book", "whole", "a_usdt", "[]", 0), at_s * SECOND_NS)


def test_a_stream_that_does_not_begin_with_a_snapshot_is_subscribed_again() -> None:
    machine = in_stream()
    machine.take_commands()
    machine.woken(5 * SECOND_NS)
    assert sent(machine) == []
    machine.woken(7 * SECOND_NS)

    assert sent(machine) == [f"3:-{BOOK_B}"], "A's has begun"


def test_a_refusal_that_names_its_stream_hits_that_alone() -> None:
    machine = in_stream()
    machine.closed("cut", 0)
    machine.woken(SECOND_NS)
    machine.opened(SECOND_NS)
    machine.woken(2 * SECOND_NS)
    machine.take_commands()
    machine.received(frame("ack", 3, "a_usdt@trades"), SECOND_NS)
    machine.received(frame("ack", 4, BOOK_A), SECOND_NS)
    machine.received(frame("refused", 4, BOOK_B), SECOND_NS)
    machine.received(frame("book", "whole", "a_usdt", "[]", 0), SECOND_NS)

    assert sent(machine) == []
    assert machine.books[A].state == "synced"
    assert (machine.books[B].state, machine.books[B].reason) == ("syncing", "refused: not here")
    assert [refusal.names for refusal in machine.refusals] == [(BOOK_B,)]


def test_what_was_refused_is_asked_for_again_ever_more_slowly_until_it_is_granted() -> None:
    machine = in_stream()
    machine.received(frame("book", "whole", "b_usdt", "[]", 0), SECOND_NS)
    machine.received(frame("refused", 1, "a_usdt@trades"), SECOND_NS)
    machine.take_commands()
    waits, at_ns = [], SECOND_NS
    for number in range(3, 7):
        started_ns = at_ns
        while not (asked := [text for text in sent(machine) if text != "hello?"]):
            at_ns += SECOND_NS // 4
            machine.woken(at_ns)
        waits.append((at_ns - started_ns) / SECOND_NS)
        assert asked == [f"{number}:a_usdt@trades"]
        answer = "refused" if number < 6 else "ack"
        machine.received(frame(answer, number, "a_usdt@trades"), at_ns)
    for _ in range(100):
        at_ns += SECOND_NS
        machine.woken(at_ns)

    assert waits == [1.0, 2.0, 4.0, 8.0]
    assert [text for text in sent(machine) if text != "hello?"] == []


def test_a_stream_that_alone_is_never_acknowledged_does_not_harm_the_others() -> None:
    machine = in_stream()
    machine.closed("cut", 0)
    machine.woken(SECOND_NS)
    machine.opened(SECOND_NS)
    machine.received(frame("ack", 3, "a_usdt@trades"), SECOND_NS)
    machine.woken(2 * SECOND_NS)
    machine.received(frame("ack", 4, BOOK_A), SECOND_NS)
    machine.received(frame("book", "whole", "a_usdt", "[]", 0), SECOND_NS)
    for second in range(3, 20):
        machine.woken(second * SECOND_NS)

    assert Close("no acknowledgement") not in machine.take_commands()
    assert machine.state == "connected"
    assert BOOK_B in machine.pending
    assert not machine.refusals, "not to answer is not to refuse"
    told = [(each.kind, each.stream_keys, each.times) for each in machine.failures.unreported]
    assert told[:2] == [("unanswered", (("book_deltas", B),), times) for times in (1, 2)]


def test_a_book_that_has_begun_needs_no_acknowledgement() -> None:
    machine = in_stream()
    machine.received(frame("book", "whole", "b_usdt", "[]", 0), SECOND_NS)
    machine.received(frame("book", "change", "a_usdt", "[]", 9), 2 * SECOND_NS)
    machine.woken(3 * SECOND_NS)
    machine.received(frame("book", "whole", "a_usdt", "[]", 0), 3 * SECOND_NS)
    for second in range(4, 30):
        machine.woken(second * SECOND_NS)

    assert machine.books[A].state == "synced"
    assert not machine.refusals


def test_a_quiet_client_says_something_now_and_then() -> None:
    machine = in_stream()
    machine.received(frame("book", "whole", "b_usdt", "[]", 0), SECOND_NS)
    machine.take_commands()
    for second in range(2, 200):
        machine.woken(second * SECOND_NS)

    commands = machine.take_commands()
    assert [command for command in commands if isinstance(command, Send)] == [Send("hello?")] * 3
    assert len(commands) < 20, "one wake at a time"


happenings = st.lists(
    st.one_of(
        st.tuples(st.just("opened"), st.just(0)),
        st.tuples(st.just("closed"), st.just(0)),
        st.tuples(st.just("woken"), st.integers(0, 20)),
        st.tuples(st.just("delta"), st.integers(0, 3)),
        st.tuples(st.just("snapshot"), st.integers(0, 3)),
        st.tuples(st.just("failed"), st.just(0)),
        st.tuples(st.just("ack"), st.integers(1, 9)),
        st.tuples(st.just("rubbish"), st.just(0)),
    ),
    max_size=80,
)


@given(happenings)
def test_in_any_order_of_events_it_never_waits_for_nothing(  # noqa: PLR0912 (one per event)
    steps: list[tuple[str, int]],
) -> None:
    machine = connection()
    machine.start()
    at, now_ns, fetching, wakes, open_asked = 0, 0, set[Symbol](), [0], False
    for what, amount in steps:
        if what == "opened" and machine.state == "connecting":
            machine.opened(now_ns)
        elif what == "closed" and machine.state in ("connecting", "connected"):
            machine.closed("cut", now_ns)
        elif what == "woken":
            now_ns += amount * SECOND_NS
            machine.woken(now_ns)
        elif what == "delta" and machine.state == "connected":
            at += amount + 1
            machine.received(frame("delta", "a_usdt", at, at), now_ns)
        elif what == "snapshot" and A in fetching:
            fetching.discard(A)
            machine.snapshot_arrived(snapshot(A, max(0, at - amount)))
        elif what == "failed" and A in fetching:
            fetching.discard(A)
            machine.snapshot_failed(A)
        elif what == "ack":
            machine.received(frame("ack", amount), now_ns)
        elif what == "rubbish":
            machine.received(b"{", now_ns)
        for command in machine.take_commands():
            if isinstance(command, FetchSnapshot):
                assert command.symbol not in fetching, "one snapshot of a symbol at a time"
                fetching.add(command.symbol)
            elif isinstance(command, WakeAt):
                wakes.append(command.at_ns)
            elif isinstance(command, Open):
                open_asked = True
        if machine.books[A].wants_snapshot:
            assert A in fetching, "a book that wants a snapshot has one under way"
        if machine.state == "reconnecting":
            assert max(wakes) > 0, "it asked to be woken"
        if machine.state == "connecting":
            assert open_asked
