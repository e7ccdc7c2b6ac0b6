"""A replay: at the speed that was asked for, to whoever takes it, and always the same."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests import events

import penstock
from penstock.clock import ManualClock, SystemClock
from penstock.errors import BadSpeed, NoData, UnknownStream
from penstock.playback.digest import digest_of
from penstock.playback.pace import Pace
from penstock.playback.player import Replay
from penstock.storage.log import EventLog, Received, open_log
from penstock.storage.log.keys import Stream

SECOND = 1_000_000_000
NOON = 1_700_000_000 * SECOND


def log_with(times_ns: Sequence[int]) -> EventLog:
    log = open_log("memory:")
    writer = log.writer("a")
    writer.append([events.trade(n, received_at_ns=at) for n, at in enumerate(times_ns)])
    writer.close()
    return log


def replay_of(log: EventLog, speed: float | None, clock: ManualClock | None = None) -> Replay:
    return Replay(log.reader, speed=speed, clock=clock or ManualClock())


async def taken(replay: Replay, clock: ManualClock, slow_s: float = 0.0) -> list[tuple[float, int]]:
    """(seconds since the start, id) of every record; the receiver takes its time for each batch."""
    found = list[tuple[float, int]]()

    async def take() -> None:
        async for batch in replay.abatches():
            now = clock.monotonic_ns() / SECOND
            found.extend((now, each.number) for each in batch)
            if slow_s:
                await clock.sleep(slow_s)

    task = asyncio.create_task(take())
    while not task.done():
        await asyncio.sleep(0.001)  # the records are read in a thread
        if clock.next_wake_ns() is not None:
            await clock.advance(0.125)
    await task
    return found


TIMES = [NOON, NOON + SECOND // 2, NOON + SECOND, NOON + SECOND, NOON + 4 * SECOND]


@pytest.mark.parametrize(
    ("speed", "instants"),
    [(1.0, [0, 0.5, 1, 1, 4]), (4.0, [0, 0.125, 0.25, 0.25, 1])],
)
async def test_records_come_at_their_instants(speed: float, instants: list[float]) -> None:
    clock = ManualClock()

    found = await taken(replay_of(log_with(TIMES), speed, clock), clock)

    start = found[0][0]
    assert [at - start for at, _ in found] == instants
    assert [number for _, number in found] == [1, 2, 3, 4, 5]


async def test_instants_do_not_drift_and_a_slow_receiver_catches_up() -> None:
    times = [NOON + n * SECOND // 8 for n in range(400)]
    clock = ManualClock()

    found = await taken(replay_of(log_with(times), 1.0, clock), clock, slow_s=1.5)

    start = found[0][0]
    late = [at - start - n / 8 for n, (at, _) in enumerate(found)]
    assert min(late) >= 0, "nothing comes early"
    assert max(late) <= 4.0, "late by a stop or two of the receiver, however many there were"


def test_all_that_is_due_comes_together() -> None:
    clock = ManualClock()
    pace = Pace(1.0, clock)
    records = [Received(at, "a", n, "t", b"") for n, at in enumerate(TIMES)]

    steps = pace.steps(records)

    assert next(steps) == records[:1]
    assert next(steps) == 0.5
    asyncio.run(clock.advance(2))
    assert next(steps) == records[1:4]
    assert next(steps) == 2.0


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan"), float("inf")])
def test_a_speed_that_is_none_is_refused(speed: float) -> None:
    with pytest.raises(BadSpeed, match="above zero"):
        replay_of(log_with(TIMES), speed)


async def test_both_iterators_give_the_same_records_and_digest() -> None:
    log = log_with([NOON + n * SECOND // 100 for n in range(1000)])
    one, other = replay_of(log, None), replay_of(log, None)

    plain = list(one)
    awaited = [each async for each in other]

    assert plain == awaited
    assert [each.event for each in plain] == [s.event for s in log.reader().scan(one_stream(log))]
    assert one.digest == other.digest == digest_of(log.reader().scan(one_stream(log)))
    assert one.emitted == 1000


def one_stream(log: EventLog) -> Stream:
    [stream] = log.reader().streams()
    return stream


def test_a_plain_iterator_keeps_the_speed_too() -> None:
    log = log_with([NOON, NOON + SECOND])
    replay = Replay(log.reader, speed=20.0, clock=SystemClock())

    assert [len(batch) for batch in replay.batches()] == [1, 1]


async def test_a_receiver_that_stops_ends_the_replay() -> None:
    replay = replay_of(log_with(TIMES), None)

    async for _ in replay:
        break

    assert 1 <= replay.emitted <= len(TIMES), "what was handed over counts"


def test_a_replay_is_iterated_once() -> None:
    replay = replay_of(log_with(TIMES), None)
    assert len(list(replay)) == len(TIMES)

    with pytest.raises(RuntimeError, match="once"):
        list(replay)


def test_a_range_without_records_is_told() -> None:
    replay = Replay(log_with(TIMES).reader, since_ns=NOON + 9 * SECOND, clock=ManualClock())

    with pytest.raises(NoData, match=r"Nothing of toy\.trades\.btc_usdt"):
        next(iter(replay))


def test_the_top_level_function_replays_a_data_folder(tmp_path: Path) -> None:
    writer = open_log(f"rocksdb:{tmp_path}").writer("a")
    writer.append([events.trade(n, received_at_ns=NOON + n * SECOND) for n in range(10)])
    noon = datetime.fromtimestamp(NOON // SECOND, UTC)
    east = timezone(timedelta(hours=9))

    def ids(since: datetime | int | None = None, until: datetime | int | None = None) -> list[int]:
        found = penstock.replay("toy.trades.*", data_dir=tmp_path, since=since, until=until)
        return [each.number - 1 for each in found]

    assert ids() == list(range(10)), "while its owner has it open"
    writer.close()
    assert ids(NOON + SECOND, NOON + 3 * SECOND) == [1, 2]
    assert ids(noon.replace(tzinfo=None) + timedelta(seconds=8)) == [8, 9]
    assert ids(until=noon.astimezone(east) + timedelta(seconds=2)) == [0, 1]
    with pytest.raises(UnknownStream):
        list(penstock.replay("toy.trades.btc_eur", data_dir=tmp_path))
    with pytest.raises(BadSpeed):
        penstock.replay(data_dir=tmp_path, speed=0)
