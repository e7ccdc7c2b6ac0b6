"""The recorder: log first, publish second, then the taps, and none of them harms another."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests import events
from tests.waiting import PATIENCE_S

from penstock.errors import StorageError, StorageFull
from penstock.market.codec import decode
from penstock.market.events import Event, Trade
from penstock.publish import Message, Published
from penstock.publish.memory import MemoryPublisher
from penstock.recorder import ListenerFailed, Recorder
from penstock.storage.log import Durability, LogWriter, Stored, open_log
from penstock.telemetry import Fact

TOPIC = "sim.trades.btc_usdt"


def trade(number: int) -> Trade:
    return events.trade(number, exchange="sim")


@pytest.fixture
def log() -> Iterator[LogWriter]:
    writer = open_log("memory:").writer("a")
    yield writer
    writer.close()


class Disk:
    """A log whose disk can be slow or full; everything else is the log it is given."""

    on_disk = True

    def __init__(self, log: LogWriter) -> None:
        self._log = log
        self.full = self.failing = False
        self.may_sync = threading.Event()
        self.may_sync.set()
        self.appended = asyncio.Event()
        self.at_disk = threading.Event()
        self.synced_to: list[list[int]] = []

    def append(self, events: Sequence[Event], durability: Durability = "flushed") -> list[Stored]:
        if self.full:
            raise StorageFull("here", "No space left on device")
        self.appended.set()
        return self._log.append(events, durability)

    def sync(self) -> None:
        self.at_disk.set()
        assert self.may_sync.wait(PATIENCE_S)
        if self.failing:
            raise StorageError("here", "Input/output error")
        self.synced_to.append(list(self._log.last_numbers().values()))

    def __getattr__(self, name: str) -> object:
        return getattr(self._log, name)


def disk(log: LogWriter) -> "tuple[Disk, LogWriter]":
    made = Disk(log)
    return made, made  # type: ignore[return-value]


async def test_only_what_is_new_is_published_with_its_number(log: LogWriter) -> None:
    publisher = MemoryPublisher()
    listening = publisher.subscribe("sim.trades.")
    elsewhere = publisher.subscribe("sim.tickers.")
    recorder = Recorder(log, publisher)

    await recorder.record([trade(1), trade(2), trade(1)])
    await recorder.record([trade(2)])
    await recorder.record([trade(3)])

    messages = listening.take()
    assert [(m.topic, m.slot, m.number) for m in messages] == [(TOPIC, "a", n) for n in (1, 2, 3)]
    assert [decode(m.record) for m in messages] == [trade(1), trade(2), trade(3)]
    assert elsewhere.take() == []
    recorder.close()


async def test_log_then_publisher_then_taps(log: LogWriter) -> None:
    order: list[str] = []

    class Listening:
        def publish(self, messages: Sequence[Published]) -> None:
            order.append(f"published {[m.number for m in messages]}")
            assert list(log.last_numbers().values()) == [2], "it is in the log by now"

        def close(self) -> None: ...

    def tap(stored: Sequence[Stored]) -> None:
        order.append(f"tapped {[s.event for s in stored] == [trade(1), trade(2)]}")

    recorder = Recorder(log, Listening(), [tap])
    stored = await recorder.record([trade(1), trade(2)])

    assert [s.number for s in stored] == [1, 2]
    assert order == ["published [1, 2]", "tapped True"]
    recorder.close()


async def test_a_tap_or_publisher_that_raises_harms_only_itself(log: LogWriter) -> None:
    facts: list[Fact] = []
    seen: list[int] = []

    class Broken:
        def publish(self, messages: Sequence[Published]) -> None:
            raise OSError(f"no bus for {len(messages)}")

        def close(self) -> None: ...

    def bad_tap(stored: Sequence[Stored]) -> None:
        raise ValueError("no idea")

    def good_tap(stored: Sequence[Stored]) -> None:
        seen.extend(s.number for s in stored)

    recorder = Recorder(log, Broken(), [bad_tap, good_tap], listener=facts.append)
    await recorder.record([trade(1)])
    await recorder.record([trade(2)])

    assert seen == [1, 2]
    assert sorted(recorder.failures.values()) == [2, 2]
    assert facts[0] == ListenerFailed(listener="publisher", error="OSError('no bus for 1')")
    assert len(facts) == 4
    recorder.close()


async def test_what_was_not_written_is_not_published(log: LogWriter) -> None:
    publisher = MemoryPublisher()
    listening = publisher.subscribe()
    control, on_disk = disk(log)
    recorder = Recorder(on_disk, publisher)
    control.full = True

    with pytest.raises(StorageFull, match="Free some space"):
        await recorder.record([trade(1)])
    assert listening.take() == []

    control.full = False
    await recorder.record([trade(1)])
    assert [m.number for m in listening.take()] == [1]
    recorder.close()


async def test_synced_publishes_only_what_is_on_the_disk_and_lets_others_run(
    log: LogWriter,
) -> None:
    publisher = MemoryPublisher()
    listening = publisher.subscribe()
    control, on_disk = disk(log)
    recorder = Recorder(on_disk, publisher, durability="synced")
    control.may_sync.clear()

    first = asyncio.create_task(recorder.record([trade(1)]))
    second = asyncio.create_task(recorder.record([trade(2)]))
    await control.appended.wait()
    assert listening.take() == [], "the loop runs on while the disk works"
    control.may_sync.set()
    await asyncio.gather(first, second)

    assert [m.number for m in listening.take()] == [1, 2]
    assert control.synced_to == [[1], [2]]
    recorder.close()


async def test_a_cancelled_batch_is_recorded_and_published_in_its_turn(log: LogWriter) -> None:
    publisher = MemoryPublisher()
    listening = publisher.subscribe()
    control, on_disk = disk(log)
    recorder = Recorder(on_disk, publisher, durability="synced")
    control.may_sync.clear()
    first = asyncio.create_task(recorder.record([trade(1)]))
    await control.appended.wait()

    first.cancel()
    second = asyncio.create_task(recorder.record([trade(2)]))
    await asyncio.sleep(0)
    control.may_sync.set()
    await second

    assert first.cancelled()
    assert [m.number for m in listening.take()] == [1, 2]
    recorder.close()


async def test_all_who_wait_for_the_disk_share_one_sync(log: LogWriter) -> None:
    control, on_disk = disk(log)
    recorder = Recorder(on_disk)
    control.may_sync.clear()
    await recorder.record([trade(1)])
    first = asyncio.create_task(recorder.sync())
    await asyncio.to_thread(control.at_disk.wait, PATIENCE_S)
    await recorder.record([trade(2)])
    rest = [asyncio.create_task(recorder.sync()) for _ in range(50)]
    await asyncio.sleep(0)
    assert not first.done(), "the loop runs on while the disk works"
    control.may_sync.set()
    await asyncio.gather(first, *rest)
    await recorder.sync()

    assert len(control.synced_to) == 2, "one under way, and one for all who came meanwhile"
    assert control.synced_to[-1] == [2]
    recorder.close()


async def test_whoever_waits_for_a_disk_that_fails_is_told_and_the_next_may_try_again(
    log: LogWriter,
) -> None:
    control, on_disk = disk(log)
    recorder = Recorder(on_disk)
    await recorder.record([trade(1)])
    control.failing = True
    outcomes = await asyncio.gather(recorder.sync(), recorder.sync(), return_exceptions=True)
    control.failing = False
    await recorder.sync()

    assert [type(outcome) for outcome in outcomes] == [StorageError, StorageError]
    assert control.synced_to == [[1]]
    recorder.close()


@pytest.mark.parametrize("durability", ["flushed", "synced"])
async def test_batches_of_many_tasks_keep_their_order(
    tmp_path: Path, durability: Durability
) -> None:
    publisher = MemoryPublisher()
    listening = publisher.subscribe(TOPIC)
    log = open_log(f"rocksdb:{tmp_path}").writer("a")
    recorder = Recorder(log, publisher, durability=durability)

    await asyncio.gather(
        *(recorder.record([trade(10 * i + j) for j in range(10)]) for i in range(20))
    )

    messages = listening.take()
    assert [m.number for m in messages] == list(range(1, 201))
    assert [decode(m.record) for m in messages] == [trade(i) for i in range(200)]
    recorder.close()
    log.close()


async def test_a_listener_that_does_not_keep_up_loses_only_its_own_messages() -> None:
    publisher = MemoryPublisher()
    slow, quick = publisher.subscribe(capacity=2), publisher.subscribe()
    made = [Message(TOPIC, "a", number, b"") for number in (1, 2, 3)]

    publisher.publish(made)

    assert await slow.receive() == made[:2]
    assert slow.dropped == 1
    assert quick.take() == made
    publisher.unsubscribe(quick)
    publisher.publish(made[:1])
    assert quick.take() == []
    assert slow.take() == made[:1]
    publisher.close()
