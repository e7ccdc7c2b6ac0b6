"""Records reach taps by stream, many batches at once, and never on the other side of a marker."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from tests.events import BTC, trade

from penstock.coverage.batches import StreamBatch, by_stream
from penstock.market.events import Disconnect, Event
from penstock.market.symbol import Symbol
from penstock.runtime.stream_taps import WITHIN_S, StreamTap, StreamTaps
from penstock.storage.log import Stored, open_log

ETH = Symbol("ETH", "USDT")
WITHIN_NS = round(WITHIN_S * 1e9)


def marker(at_ns: int) -> Disconnect:
    return Disconnect(
        exchange="binance", symbol=BTC, received_at_ns=at_ns, channels=("trades",), reason="cut"
    )


class World:
    """Taps on a log in memory, and what one of them received, call by call."""

    def __init__(self, within_s: float = WITHIN_S) -> None:
        self.received = list[list[Stored]]()
        self.taps = StreamTaps([self._receive], within_s)
        self._writer = open_log("memory:").writer("a")

    def record(self, *events: Event) -> list[Stored]:
        stored = self._writer.append(events)
        self.taps(stored)
        return stored

    def _receive(self, batches: Sequence[StreamBatch]) -> None:
        self.received.append([stored for batch in batches for stored in batch.records])


def test_records_of_a_stream_are_passed_on_together_after_a_while() -> None:
    world = World()

    first = world.record(trade(1, received_at_ns=0), trade(7, ETH, received_at_ns=0))
    second = world.record(trade(2, received_at_ns=WITHIN_NS - 1))
    assert world.received == []
    third = world.record(trade(8, ETH, received_at_ns=WITHIN_NS))

    assert world.received == [[first[0], second[0], first[1], third[0]]]


def test_a_stream_with_many_records_is_passed_on_and_others_are_kept() -> None:
    world = World()

    rare = world.record(trade(1, ETH))
    frequent = [world.record(trade(number))[0] for number in range(1, 25)]

    assert world.received == [frequent[:10], frequent[10:20]]
    world.taps.pass_on()
    assert world.received[2:] == [[*rare, *frequent[20:]]]


def test_each_batch_is_passed_on_where_nothing_is_kept() -> None:
    world = World(within_s=0.0)

    first = world.record(trade(1))
    second = world.record(trade(2))

    assert world.received == [first, second]


def test_what_is_kept_is_passed_on_when_it_is_needed() -> None:
    world = World()
    some = world.record(trade(1))

    world.taps.pass_on()
    world.taps.pass_on()

    assert world.received == [some]


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

    found = [stored for call in world.received for stored in call]
    for stream in {stored.stream for stored in recorded}:
        mine = [each for each in recorded if each.stream == stream]
        assert [each for each in found if each.stream == stream] == mine
    assert len(found) == len(recorded)


def test_a_marker_separates_what_was_before_it_from_what_comes_after() -> None:
    world = World()

    before = world.record(trade(1))
    marked = world.record(marker(5))
    after = world.record(trade(9))
    world.taps.pass_on()

    assert world.received == [before, marked, after]


def test_a_tap_that_raises_is_reported_and_harms_no_other() -> None:
    received, failed = list[Stored](), list[tuple[StreamTap, str]]()

    def broken(batches: Sequence[StreamBatch]) -> None:
        raise ValueError(f"{len(batches)} streams")

    def sound(batches: Sequence[StreamBatch]) -> None:
        received.extend(batches[0].records)

    taps = StreamTaps([broken, sound], 0.0)
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
