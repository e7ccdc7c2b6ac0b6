"""Records reach taps by stream, many batches at once, and never on the other side of a marker."""

from collections.abc import Iterable, Sequence
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.events import BTC, ticker, trade
from tests.paths import both_paths  # noqa: F401 (every test runs on both)

from penstock.coverage.batches import StreamBatch, TapRecord, by_stream
from penstock.coverage.continuity import Continuity
from penstock.coverage.projection import Projection
from penstock.market.events import Disconnect, Event, Source
from penstock.market.symbol import Symbol
from penstock.runtime.stream_taps import WITHIN_S, StreamTap, StreamTaps
from penstock.storage.log import Stored, open_log
from penstock.storage.log.keys import Stream

ETH = Symbol("ETH", "USDT")
WITHIN_NS = round(WITHIN_S * 1e9)


def marker(at_ns: int) -> Disconnect:
    return Disconnect(
        exchange="binance", symbol=BTC, received_at_ns=at_ns, channels=("trades",), reason="cut"
    )


def in_trades(stream: Stream) -> bool:
    return stream.channel == "trades"


Told = tuple[Stream, int, bytes, Event]


def told(stream: Stream, *records: TapRecord) -> list[Told]:
    """What taps are told of records."""
    return [(stream, each.number, each.key, each.event) for each in records]


def all_told(recorded: Iterable[Stored]) -> list[Told]:
    return [each for stored in recorded for each in told(stored.stream, stored)]


def ranges(batch: StreamBatch) -> list[tuple[int, int, list[Told]]]:
    return [(first, last, told(batch.stream, *ends)) for first, last, *ends in batch.ranges]


class World:
    """Taps on a log in memory, and what one of them received, call by call."""

    def __init__(self, within_s: float = WITHIN_S) -> None:
        self.received = list[list[StreamBatch]]()
        self.taps = StreamTaps([self._receive], within_s, in_trades)
        self._writer = open_log("memory:").writer("a")

    @property
    def records(self) -> list[list[Told]]:
        return [
            [each for batch in call for each in told(batch.stream, *batch.records)]
            for call in self.received
        ]

    def record(self, *events: Event) -> list[Stored]:
        stored = self._writer.append(events)
        self.taps(stored)
        return stored

    def _receive(self, batches: Sequence[StreamBatch]) -> None:
        self.received.append(list(batches))


def test_records_of_a_stream_are_passed_on_together_after_a_while() -> None:
    world = World()

    first = world.record(trade(1, received_at_ns=0), trade(7, ETH, received_at_ns=0))
    second = world.record(trade(2, received_at_ns=WITHIN_NS - 1))
    assert world.records == []
    third = world.record(trade(8, ETH, received_at_ns=WITHIN_NS))

    assert world.records == [all_told([first[0], second[0], first[1], third[0]])]


def test_of_many_records_the_ends_are_kept_and_the_range_of_their_ids() -> None:
    world = World()
    recorded = [world.record(trade(number))[0] for number in (4, 5, 6, 7)]

    world.taps.pass_on()

    [[batch]] = world.received
    assert world.records == [all_told([recorded[0], recorded[-1]])]
    assert batch.count == 4
    assert ranges(batch) == [(4, 7, all_told([recorded[0], recorded[-1]]))]


def test_records_with_an_id_missing_before_them_are_passed_on_at_once() -> None:
    world = World()
    recorded = [world.record(trade(number))[0] for number in (1, 2, 3, 5, 6, 9)]

    [[first], [second]] = world.received
    one, _, three, five, six, nine = all_told(recorded)

    assert world.records == [[one, five], [six, nine]]
    assert (first.count, second.count) == (4, 2)
    assert ranges(first) == [(1, 3, [one, three]), (5, 5, [five, five])]
    assert ranges(second) == [(6, 6, [six, six]), (9, 9, [nine, nine])]


def test_of_records_without_ids_the_ends_are_kept_too() -> None:
    world = World()
    recorded = [world.record(ticker(at_ns))[0] for at_ns in (4, 5, 9)]

    world.taps.pass_on()

    assert world.records == [all_told([recorded[0], recorded[-1]])]
    assert world.received[0][0].count == 3


def test_records_from_another_source_are_another_batch() -> None:
    world = World()
    recorded = [
        world.record(trade(number, source=source))[0]
        for number, source in ((1, "backfill"), (2, "backfill"), (3, "live"), (4, "live"))
    ]

    world.taps.pass_on()

    assert world.records == [all_told(recorded[:2]), all_told(recorded[2:])]


class Coverage:
    """What is known of the records of one slot."""

    def __init__(self) -> None:
        self.missed = set[int]()
        self.continuity = Continuity(["trades"], lambda _: None)
        self.continuity.missed = lambda each: self.missed.update(range(each.first, each.last + 1))
        self.projection = Projection(1, "a", lambda _: ["trades"], is_streamed=True)
        self.projection.resume([], {})

    def take(self, batches: Sequence[StreamBatch]) -> None:
        self.continuity.take(batches)
        self.projection.take(batches)

    def runs(self) -> dict[str, object]:
        found = self.projection.changed()
        return {str(each.stream): (each.number, each.runs) for each in found}


SOURCES = st.sampled_from(["live", "live", "live", "rest", "backfill"])


@given(st.lists(st.lists(st.tuples(st.integers(1, 30), st.booleans(), SOURCES), min_size=1)))
def test_what_is_gathered_tells_the_same_as_each_record(
    batches: list[list[tuple[int, bool, Source]]],
) -> None:
    writer, at_once, gathered = open_log("memory:").writer("a"), Coverage(), Coverage()
    taps, at_ns = StreamTaps([gathered.take], WITHIN_S, gathered.projection.has_ids), 0
    for batch in batches:
        events = list[Event]()
        for number, is_trade, source in batch:
            at_ns += WITHIN_NS // 9
            made = trade(number) if is_trade else ticker(at_ns)
            events.append(replace(made, received_at_ns=at_ns, source=source))
        recorded = writer.append(events)
        at_once.take(by_stream(recorded))
        if recorded:
            taps(recorded)
    taps.pass_on()

    assert gathered.continuity.status() == at_once.continuity.status()
    for _, ids in gathered.continuity.known():
        missing = {number for gap in ids.runs.gaps() for number in range(gap.first, gap.last + 1)}
        assert missing <= gathered.missed
    assert gathered.runs() == at_once.runs()


def test_each_batch_is_passed_on_where_nothing_is_kept() -> None:
    world = World(within_s=0.0)

    first = world.record(trade(1))
    second = world.record(trade(2))

    assert world.records == [all_told(first), all_told(second)]


def test_what_is_kept_is_passed_on_when_it_is_needed() -> None:
    world = World()
    some = world.record(trade(1))

    world.taps.pass_on()
    world.taps.pass_on()

    assert world.records == [all_told(some)]


@given(st.lists(st.lists(st.tuples(st.booleans(), st.integers(0, 2 * WITHIN_NS)), min_size=1)))
def test_each_record_is_passed_on_once_and_in_order(
    batches: list[list[tuple[bool, int]]],
) -> None:
    world, numbers = World(), iter(range(1, 10_000))
    recorded = [
        stored
        for batch in batches
        for stored in world.record(
            *(
                trade(next(numbers), BTC if is_btc else ETH, received_at_ns=at_ns)
                for is_btc, at_ns in batch
            )
        )
    ]
    world.taps.pass_on()

    found = [batch for call in world.received for batch in call]
    for stream in {stored.stream for stored in recorded}:
        mine = iter(each for each in recorded if each.stream == stream)
        for batch in found:
            if batch.stream == stream:
                passed = list(islice(mine, batch.count))
                ends = passed[:1] if batch.count == 1 else [passed[0], passed[-1]]
                assert told(stream, *batch.records) == all_told(ends)
        assert not list(mine)


def test_a_marker_separates_what_was_before_it_from_what_comes_after() -> None:
    world = World()

    before = world.record(trade(1))
    marked = world.record(marker(5))
    after = world.record(trade(9))
    world.taps.pass_on()

    assert world.records == [all_told(before), all_told(marked), all_told(after)]


def test_a_tap_that_raises_is_reported_and_harms_no_other() -> None:
    received, failed = list[TapRecord](), list[tuple[StreamTap, str]]()

    def broken(batches: Sequence[StreamBatch]) -> None:
        raise ValueError(f"{len(batches)} streams")

    def sound(batches: Sequence[StreamBatch]) -> None:
        received.extend(batches[0].records)

    taps = StreamTaps([broken, sound], 0.0, in_trades)
    taps.failed = lambda tap, error: failed.append((tap, str(error)))
    stored = open_log("memory:").writer("a").append([trade(1)])
    taps(stored)

    assert received == stored
    assert failed == [(broken, "1 streams")]


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1), min_size=1))
def test_streams_of_many_batches_keep_the_order_of_their_records(batches: list[list[str]]) -> None:
    writer, numbers = open_log("memory:").writer("a"), iter(range(1, 10_000))
    recorded = [
        stored
        for batch in batches
        for stored in writer.append([trade(next(numbers), exchange=name) for name in batch])
    ]

    found = {batch.stream: batch.records for batch in by_stream(recorded)}

    for stream, records in found.items():
        assert list(records) == [each for each in recorded if each.stream == stream]
    assert sum(map(len, found.values())) == len(recorded)
