"""Recording while the log cannot be written: everything waits, in order, loudly, and is kept."""

import asyncio
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests import events
from tests.damaged import IN_RECORDS, everything, file_of, flip, make_slot

from penstock.clock import ManualClock
from penstock.collect.facts import LogUnwritable, LogWritable
from penstock.collect.recording import RetryingRecorder
from penstock.errors import LogDamaged, StorageFull
from penstock.market.events import Event
from penstock.recorder import Recorder
from penstock.storage.log import Durability, LogWriter, Stored, open_log
from penstock.storage.log.keys import Stream
from penstock.telemetry import Fact

TRADES = Stream("toy", "trades", "btc_usdt")


def trades(*numbers: int) -> list[Event]:
    return [events.trade(number) for number in numbers]


@dataclass
class Full:
    """A log without room, for as long as a test likes."""

    log: LogWriter
    is_full: bool = True
    attempts: int = 0
    on_disk: bool = True

    def append(self, events: Sequence[Event], durability: Durability = "flushed") -> list[Stored]:
        self.attempts += 1
        if self.is_full:
            raise StorageFull("/here", "no room")
        return self.log.append(events, durability)

    def sync(self) -> None:
        self.log.sync()


@dataclass
class Scene:
    """A recorder on a full log."""

    durability: Durability = "flushed"
    clock: ManualClock = field(default_factory=ManualClock)
    facts: list[Fact] = field(default_factory=list)
    recovered: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._events = open_log("memory:")
        self.log = Full(self._events.writer("a"))
        recorder = Recorder(self.log, durability=self.durability)  # type: ignore[arg-type]
        self.recording = RetryingRecorder(
            recorder, "toy", Path("/"), self.clock, self.facts.append, self.recovered.extend
        )

    def numbers(self) -> list[tuple[int, int]]:
        """(record number, id) of everything that was recorded."""
        found = self._events.reader().numbers(TRADES, "a", 1)
        return [(each.number, int.from_bytes(each.key, "big")) for each in found]


@pytest.mark.parametrize("durability", ["flushed", "synced"])
async def test_batches_wait_and_are_recorded_in_the_order_they_came(durability: Durability) -> None:
    scene = Scene(durability)
    batches = [trades(1, 2), trades(3), trades(4, 5)]
    waiting = [asyncio.create_task(scene.recording.record(each)) for each in batches]
    await scene.clock.advance(20)
    assert not any(task.done() for task in waiting)
    assert scene.recording.waiting == 5
    scene.recording.gathered = lambda: 7
    assert "disk full: /" in scene.recording.trouble()
    assert "12 records wait (no room)" in scene.recording.trouble()
    assert scene.log.attempts < 40, "only the first is tried again"

    scene.log.is_full = False
    await scene.clock.advance(6)
    await asyncio.gather(*waiting)
    assert scene.numbers() == [(n, n) for n in range(1, 6)]
    assert (scene.recording.waiting, scene.recording.trouble()) == (0, "")
    assert scene.recovered == batches[0], "of what failed, parts may have been there already"


async def test_it_is_told_at_once_then_every_half_minute_and_when_it_is_over() -> None:
    scene = Scene()
    waiting = asyncio.create_task(scene.recording.record(trades(1)))
    for _ in range(100):
        await scene.clock.advance(1)
    assert [type(fact) for fact in scene.facts].count(LogUnwritable) in (3, 4)
    assert {fact.level for fact in scene.facts} == {"error"}
    first = scene.facts[0]
    assert isinstance(first, LogUnwritable)
    assert (first.path, first.waiting) == ("/", 1)
    assert first.free_bytes is not None

    scene.log.is_full = False
    await scene.clock.advance(6)
    await waiting
    assert isinstance(scene.facts[-1], LogWritable)
    assert scene.facts[-1].after_s > 99


@pytest.mark.parametrize("durability", ["flushed", "synced"])
async def test_a_batch_whose_caller_was_cancelled_is_recorded_nevertheless(
    durability: Durability,
) -> None:
    scene = Scene(durability)
    cancelled = asyncio.create_task(scene.recording.record(trades(1)))
    await scene.clock.advance(1)
    cancelled.cancel()
    with suppress(asyncio.CancelledError):
        await cancelled
    last = asyncio.create_task(scene.recording.record(trades(2)))
    scene.log.is_full = False
    await scene.clock.advance(6)
    await last
    await scene.recording.settle()
    assert scene.numbers() == [(1, 1), (2, 2)]


async def test_told_to_give_up_it_tries_once_more_and_raises() -> None:
    scene = Scene()
    waiting = asyncio.create_task(scene.recording.record(trades(1)))
    abandoned = asyncio.create_task(scene.recording.record(trades(2)))
    await scene.clock.advance(1)
    abandoned.cancel()
    before = scene.log.attempts
    scene.recording.give_up()
    with pytest.raises(StorageFull, match="no room"):
        await waiting
    with pytest.raises(StorageFull, match="no room"):
        await scene.recording.settle()
    assert scene.log.attempts == before + 2


@pytest.mark.parametrize("durability", ["flushed", "synced"])
async def test_a_damaged_log_is_told_at_once_because_waiting_does_not_mend_it(
    durability: Durability, tmp_path: Path
) -> None:
    folder = make_slot(tmp_path)
    flip(IN_RECORDS)(file_of(folder, "*.sst", 1))
    with closing(open_log(f"rocksdb:{folder}").writer("a")) as writer:
        recorder = Recorder(writer, durability=durability)
        recording = RetryingRecorder(recorder, "toy", folder, ManualClock())

        # Whether these are there already cannot be known, so they must not be stored.
        with closing(recorder), pytest.raises(LogDamaged, match="penstock log repair a"):
            await recording.record(everything(range(151, 301)))

        assert recording.waiting == 0
        assert writer.counts.recorded == 0
