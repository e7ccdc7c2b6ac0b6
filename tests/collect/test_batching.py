"""When a batch is written: at once if it comes alone, in large batches in a flood."""

import asyncio
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import events

from penstock.clock import ManualClock
from penstock.collect.batching import FULL, Batching, Flushing, SharedBatching
from penstock.market.events import Event, Trade

MS = 1_000_000


@dataclass
class Writer:
    """Writes what has arrived whenever a batch is due; a write takes as long as it is told."""

    clock: ManualClock
    batching: Batching
    takes_s: float = 0.0
    waiting: list[int] = field(default_factory=list)
    """When each thing arrived that is not written yet."""
    writes: list[tuple[int, list[int]]] = field(default_factory=list)
    """When each write began, and when what was in it had arrived."""

    def arrive(self, count: int = 1) -> None:
        self.waiting += [self.clock.monotonic_ns()] * count
        self.batching.arrived()

    async def run(self) -> None:
        while True:
            await self.batching.due(lambda: len(self.waiting))
            batch, self.waiting = self.waiting, []
            self.writes.append((self.clock.monotonic_ns(), batch))
            await self.clock.sleep(self.takes_s)
            self.batching.written()


def run(flushing: Flushing, gaps_ms: list[int], takes_s: float = 0.0) -> Writer:
    """One thing arrives after each of these pauses; what was written when."""

    async def play() -> Writer:
        clock = ManualClock()
        writer = Writer(clock, Batching(flushing, clock), takes_s)
        task = asyncio.create_task(writer.run())
        for gap_ms in gaps_ms:
            await clock.advance(gap_ms / 1000)
            writer.arrive()
        await clock.advance(10.0)
        task.cancel()
        return writer

    return asyncio.run(play())


@given(st.lists(st.integers(1, 30), min_size=1, max_size=50))
def test_what_comes_alone_is_written_at_once(gaps_ms: list[int]) -> None:
    writer = run(Flushing(), gaps_ms)
    assert [batch for _, batch in writer.writes] == [[at_ns] for at_ns, _ in writer.writes]


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=50),
    st.sampled_from([0.0, 0.0005, 0.003, 0.02, 1.0]),
    st.sampled_from([0.0, 0.005, 0.05]),
)
def test_everything_is_written_once_in_order_and_soon(
    gaps_ms: list[int], takes_s: float, least_s: float
) -> None:
    latest_s = 0.02
    writer = run(Flushing(latest_s, least_s), gaps_ms, takes_s)
    arrived = [at_ns for _, batch in writer.writes for at_ns in batch]
    assert len(arrived) == len(gaps_ms)
    assert arrived == sorted(arrived)
    # A write may be under way when something arrives, and the next is given its rest.
    longest_ns = round((takes_s + max(latest_s, least_s)) * 1e9) + MS
    for at_ns, batch in writer.writes:
        assert all(at_ns - each <= longest_ns for each in batch)


def test_what_comes_while_a_batch_is_written_is_in_the_next_one() -> None:
    writer = run(Flushing(), [5, 1], takes_s=0.003)

    assert [len(batch) for _, batch in writer.writes] == [1, 1]


@given(st.lists(st.integers(0, 5), min_size=2, max_size=50), st.integers(1, 50))
def test_two_writes_are_at_least_so_far_apart(gaps_ms: list[int], least_ms: int) -> None:
    writer = run(Flushing(least_s=least_ms / 1000), gaps_ms)
    began_ns = [at_ns for at_ns, _ in writer.writes]
    apart_ns = [later - sooner for sooner, later in pairwise(began_ns)]
    assert all(apart >= least_ms * MS for apart in apart_ns)


def test_the_longer_a_write_takes_the_more_the_next_one_gathers() -> None:
    every_ms = [1] * 2_000
    quick, slow = (run(Flushing(), every_ms, takes_s) for takes_s in (0.0002, 0.004))
    assert len(quick.writes) >= 1_300
    assert len(slow.writes) <= 2_000 / 7


async def test_while_more_keeps_coming_a_batch_grows_until_it_is_full() -> None:
    clock = ManualClock()
    batching, counts = Batching(Flushing(), clock), iter(range(0, 100_000, 400))
    seen = list[int]()

    def waiting() -> int:  # with every turn of the loop another 400
        seen.append(next(counts))
        return seen[-1]

    batching.arrived()
    await batching.due(waiting)
    assert seen[-2] < FULL <= seen[-1]


@pytest.mark.parametrize(("size", "waits_s"), [(FULL, 0.0), (FULL - 1, 0.01)])
async def test_after_a_full_batch_the_next_one_is_due_at_once(size: int, waits_s: float) -> None:
    """After any other one it is gathered for as long as the last write took."""
    clock = ManualClock()
    batching = Batching(Flushing(), clock)
    batching.arrived()
    await batching.due(lambda: size)
    await clock.advance(0.01)
    batching.written()

    batching.arrived()
    due, ended_ns = asyncio.create_task(batching.due(lambda: size)), clock.monotonic_ns()
    while not due.done():
        await clock.advance(0.001)
    assert clock.monotonic_ns() - ended_ns >= round(waits_s * 1e9)
    assert clock.monotonic_ns() - ended_ns <= round(waits_s * 1e9) + 2 * MS


async def test_after_a_pause_a_small_batch_is_written_without_reading_on() -> None:
    clock, calls = ManualClock(), list[int]()
    batching = Batching(Flushing(least_s=0.01), clock)

    def waiting() -> int:
        calls.append(1)
        return len(calls)  # more with every look

    for _ in range(2):
        calls.clear()
        batching.arrived()
        due = asyncio.create_task(batching.due(waiting))
        await clock.advance(0.01)
        await due
        batching.written()

    assert len(calls) == 1


def test_frequent_messages_are_gathered_and_rare_ones_are_not() -> None:
    def writes_per_s(arrivals_per_s: int) -> int:
        async def play() -> int:
            clock = ManualClock()
            writer = Writer(clock, Batching(Flushing(latest_s=0.02), clock))
            task = asyncio.create_task(writer.run())
            for _ in range(2 * arrivals_per_s):
                await clock.advance(1 / arrivals_per_s)
                writer.arrive()
            task.cancel()
            return sum(at_ns >= clock.monotonic_ns() - 1_000 * MS for at_ns, _ in writer.writes)

        return asyncio.run(play())

    assert writes_per_s(200) >= 195
    assert 480 <= writes_per_s(1_000) <= 700
    assert 250 <= writes_per_s(2_000) <= 350
    assert 130 <= writes_per_s(5_000) <= 160


def test_after_a_flood_a_message_that_comes_alone_is_written_at_once() -> None:
    writer = run(Flushing(), [0] * 5_000 + [1_000, 30])
    at_ns, batch = writer.writes[-1]
    assert batch == [at_ns]


@dataclass
class Gathering:
    """A source of events."""

    batching: SharedBatching
    batches: list[list[Event]]
    events: list[Event] = field(default_factory=list)
    told: int = 0

    def arrive(self, event: Event) -> None:
        self.events.append(event)
        self.batching.arrived()

    def waiting(self) -> int:
        return len(self.events)

    def take(self) -> list[Event]:
        taken, self.events = self.events, []
        return taken

    def written(self) -> None:
        self.told += 1

    async def run(self) -> None:
        await self.batching.run(self, self.write)

    async def write(self, events: list[Event]) -> None:
        self.batches.append(events)


def test_what_several_sources_have_is_written_together_whichever_of_them_end() -> None:
    async def play() -> tuple[list[list[Event]], list[int]]:
        clock = ManualClock()
        batching, batches = SharedBatching(Flushing(), clock), list[list[Event]]()
        sources = [Gathering(batching, batches) for _ in range(3)]
        tasks = [asyncio.create_task(each.run()) for each in sources]
        await clock.advance(1.0)
        for number, source in enumerate(sources):
            source.arrive(events.trade(number))
        await clock.advance(1.0)
        tasks[0].cancel()
        await clock.advance(1.0)
        for number, source in enumerate(sources[1:], 10):
            source.arrive(events.trade(number))
        await clock.advance(1.0)
        for task in tasks:
            task.cancel()
        return batches, [source.told for source in sources]

    batches, told = asyncio.run(play())

    found = [[event.id for event in batch if isinstance(event, Trade)] for batch in batches]
    assert found == [[0, 1, 2], [10, 11]]
    assert told == [1, 2, 2]
