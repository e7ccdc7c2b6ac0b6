"""Several publishers at once: none stops the recorder, and each counts what it dropped."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from threading import Event

import pytest
from tests.events import trade
from tests.waiting import PATIENCE_S

from penstock.clock import SystemClock
from penstock.config import Collect, Publish, Settings
from penstock.errors import ConfigError
from penstock.publish import Published, PublishedCounts, PublishedSlot, Publisher
from penstock.publish.by_url import PreparedPublisher
from penstock.publish.memory import MemoryPublisher
from penstock.recorder import ListenerFailed, Recorder
from penstock.runtime.publishers import Publishers
from penstock.runtime.recording import RecordingProcess
from penstock.storage.log import open_log
from penstock.telemetry import Fact

CAPACITY = 10


class Broken:
    """Raises whenever it is called."""

    def publish(self, messages: Sequence[Published]) -> None:
        raise OSError("no route")

    def close(self) -> None:
        raise OSError("no route")


class BrokenOnTheLoop(Broken):
    """The same, on the event loop."""

    def __init__(self) -> None:
        self.counts = PublishedCounts()

    async def run(self) -> None:
        raise OSError("no route")


class Stuck:
    """Does not return before it is released."""

    def __init__(self) -> None:
        self.released, self.got = Event(), list[Published]()

    def publish(self, messages: Sequence[Published]) -> None:
        self.released.wait()
        self.got += messages

    def close(self) -> None: ...


@asynccontextmanager
async def publishing(
    facts: list[Fact], **publishers: Publisher
) -> AsyncIterator[tuple[Recorder, Publishers]]:
    prepared = [
        PreparedPublisher(name, lambda _, opened=each: opened)  # type: ignore[misc]
        for name, each in publishers.items()
    ]
    source = PublishedSlot("a", 1, {}, SystemClock(), facts.append)
    with closing(Publishers(prepared, source, CAPACITY)) as opened:
        yield Recorder(open_log("memory:").writer("a"), opened, listener=facts.append), opened


async def eventually(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():  # noqa: ASYNC110 (another thread makes it true)
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("broken", [Broken, BrokenOnTheLoop])
async def test_one_that_fails_stops_neither_the_recorder_nor_the_others(
    broken: type[Broken],
) -> None:
    memory, facts = MemoryPublisher(), list[Fact]()
    heard = memory.subscribe()
    async with publishing(facts, broken=broken(), memory=memory) as (recorder, publishers):
        for number in range(1, 4):
            assert await recorder.record([trade(number)])
        await eventually(lambda: publishers.counts()["broken"].dropped == 3)
        await eventually(lambda: bool(facts))

        assert [each.number for each in heard.take()] == [1, 2, 3]
        assert publishers.counts()["broken"].published == 0
        assert publishers.total() == PublishedCounts(3, 3, 0)
        assert recorder.failures == {}
    told = {each.listener for each in facts if isinstance(each, ListenerFailed)}
    assert told == {"broken"}
    assert len(facts) == 1, "not for every message"


async def test_one_that_is_slow_delays_nothing_and_counts_what_does_not_fit() -> None:
    stuck, memory = Stuck(), MemoryPublisher()
    heard = memory.subscribe()
    async with publishing([], stuck=stuck, memory=memory) as (recorder, publishers):
        async with asyncio.timeout(PATIENCE_S):
            for number in range(1, 26):
                await recorder.record([trade(number)])
        assert len(heard.take()) == 25
        assert publishers.counts()["stuck"].dropped == 25 - CAPACITY
        stuck.released.set()
        await eventually(lambda: publishers.counts()["stuck"].published == CAPACITY)

        assert await recorder.record([trade(26)])
        await eventually(lambda: publishers.counts()["stuck"].published == CAPACITY + 1)
    assert [each.number for each in stuck.got] == [*range(1, CAPACITY + 1), 26]


async def test_what_is_queued_at_the_end_is_sent() -> None:
    stuck = Stuck()
    async with publishing([], stuck=stuck) as (recorder, _):
        await recorder.record([trade(1), trade(2)])
        stuck.released.set()
    assert len(stuck.got) == 2


async def test_one_that_never_returns_does_not_keep_the_process_from_ending() -> None:
    stuck = Stuck()
    async with asyncio.timeout(PATIENCE_S), publishing([], stuck=stuck) as (recorder, publishers):
        await recorder.record([trade(1)])
        await recorder.record([trade(2)])
    assert publishers.counts()["stuck"].published == 0
    stuck.released.set()


async def test_one_that_cannot_be_opened_is_named_and_the_others_are_closed() -> None:
    closed = Event()

    class Opened(MemoryPublisher):
        def close(self) -> None:
            closed.set()

    def refuse(_: PublishedSlot) -> Publisher:
        raise OSError("no such device")

    prepared = [PreparedPublisher("one", lambda _: Opened()), PreparedPublisher("two", refuse)]
    with pytest.raises(ConfigError, match=r"two cannot be opened: OSError.*no such device"):
        Publishers(prepared, PublishedSlot("a", 1, {}, SystemClock()), CAPACITY)
    assert closed.is_set()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    collect = Collect(data_dir=str(tmp_path))
    return Settings(collect=collect, publish=Publish(urls=("zeromq:", "memory:")))


async def test_a_process_publishes_to_all_that_are_set(settings: Settings) -> None:
    async with RecordingProcess("toy", settings, SystemClock()) as process:
        process.own_slot("a")
        recorder, publishers = process.open_recorder()
        _, memory = publishers
        assert isinstance(memory, MemoryPublisher)
        heard = memory.subscribe()
        await recorder.record([trade(1)])

        assert [each.number for each in heard.take()] == [1]
        assert publishers.counts().keys() == {"zeromq", "memory"}
        assert publishers.counts()["zeromq"].unheard == 1, "no bus runs"
