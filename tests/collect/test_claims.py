"""What a status claims: never more than the log holds on the disk, and the log is believed."""

import asyncio
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.coverage.test_continuity import TRADES, heard, trade

from penstock.clock import ManualClock
from penstock.collect.absences import Absences
from penstock.collect.recording import RetryingRecorder
from penstock.collect.reporter import Reporter, StatusLocation
from penstock.collect.resuming import resume
from penstock.collect.status import CollectorStatus, read_status
from penstock.coverage.continuity import Continuity
from penstock.coverage.facts import RecordsLost
from penstock.coverage.missing import missing_ids
from penstock.coverage.stored import lacks_records
from penstock.errors import StorageError
from penstock.market.events import Event
from penstock.recorder import Recorder
from penstock.runtime.stream_taps import WITHIN_S, StreamTaps
from penstock.storage.log import Durability, LogWriter, Stored, open_log
from penstock.telemetry import Fact, quiet


class Disk:
    """A log that says when it is synced, and may fail at that."""

    on_disk = True

    def __init__(self, log: LogWriter, folder: Path) -> None:
        self._log, self._folder = log, folder
        self.failing = False
        self.claimed_before_sync: list[CollectorStatus | None] = []

    def append(self, events: Sequence[Event], durability: Durability = "flushed") -> list[Stored]:
        return self._log.append(events, durability)

    def sync(self) -> None:
        self.claimed_before_sync.append(read_status(self._folder, "a"))
        if self.failing:
            raise StorageError("here", "Input/output error")


class Scene:
    """A collector's recorder and reporter on a log in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, ManualClock(1_000)
        self.disk = Disk(open_log("memory:").writer("a"), folder)
        self.continuity = Continuity(["trades"], quiet)
        self.reporter = Reporter(StatusLocation("toy", "a", folder), self.continuity, self.clock)
        both = self.continuity.take, self.reporter
        taps = StreamTaps(both, WITHIN_S, lambda stream: stream.channel == "trades")
        self.reporter.take_recorded = taps.pass_on
        recorder = Recorder(self.disk, taps=[taps])  # type: ignore[arg-type]
        taps.failed = recorder.tap_failed
        self.recorder = RetryingRecorder(recorder, "toy", folder, self.clock)
        self.reporter.watch_recording(self.recorder)

    def written(self) -> CollectorStatus:
        status = read_status(self.folder, "a")
        assert status is not None
        return status


@pytest.mark.parametrize("running", [True, False])
async def test_a_status_is_written_after_the_log_is_synced(tmp_path: Path, running: bool) -> None:
    scene = Scene(tmp_path)
    await scene.recorder.record([trade(1), trade(2)])
    if running:
        await scene.reporter.report()
    else:
        scene.reporter.write("stopped")

    assert scene.disk.claimed_before_sync == [None]
    written = scene.written()
    assert (written.ids[0].seen, written.numbered, written.synced_ms) == ([(1, 2)], 2, 1_000)


async def test_while_the_log_cannot_be_synced_a_status_claims_no_more_than_before(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    await scene.recorder.record([trade(1)])
    await scene.reporter.report()
    scene.disk.failing = True
    await scene.recorder.record([trade(2)])
    scene.clock.step_wall(5.0)
    await scene.reporter.report()

    written = scene.written()
    assert (written.ids[0].seen, written.numbered, written.synced_ms) == ([(1, 1)], 1, 1_000)
    assert written.at_ms == 6_000, "it is told as it is otherwise"
    scene.disk.failing = False
    await scene.reporter.report()
    assert scene.written().ids[0].seen == [(1, 2)]


async def test_a_status_that_is_slow_to_be_written_does_not_replace_a_newer_one(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    slow = scene.reporter._file._turn
    slow.acquire()
    reporting = asyncio.create_task(scene.reporter.report())
    for _ in range(5):
        await asyncio.sleep(0)
    assert scene.reporter._file._made == 1, "it is being written"
    reporting.cancel()
    slow.release()
    scene.reporter.write("stopped")
    await asyncio.gather(reporting, return_exceptions=True)
    await asyncio.to_thread(lambda: None)

    assert scene.written().state == "stopped"


def claims(folder: Path, numbers: Sequence[int], *, older: bool = False) -> CollectorStatus:
    """What a collector said that recorded these."""
    continuity = Continuity(["trades"], quiet)
    heard(continuity, open_log("memory:").writer("a"), numbers)
    reporter = Reporter(StatusLocation("toy", "a", folder), continuity, ManualClock(1_000))
    reporter.numbered = len(numbers)
    reporter.write("running")
    return replace(reporter.status("running"), numbered=None if older else len(numbers))


@pytest.mark.parametrize("older", [False, True], ids=["this version", "an older one"])
def test_a_log_whose_tail_is_gone_lacks_what_its_status_says(tmp_path: Path, older: bool) -> None:
    status = claims(tmp_path, [1, 2, 3], older=older)
    whole, cut = open_log("memory:"), open_log("memory:")
    whole.writer("a").append([trade(1), trade(2), trade(3), trade(4)])
    cut.writer("a").append([trade(1), trade(2)])

    with closing(whole.reader()) as reader:
        assert not lacks_records(status, reader)
    with closing(cut.reader()) as reader:
        assert lacks_records(status, reader)
        [hole] = missing_ids([status], [("toy", "btc_usdt")], reader) if not older else [None]
    if hole is not None:
        assert (hole.first_id, hole.last_id) == (3, 3), "known before anybody collects again"


def test_a_collector_that_begins_on_a_damaged_log_counts_what_is_gone_as_missing(
    tmp_path: Path,
) -> None:
    claims(tmp_path, range(1, 101))
    log, facts = open_log("memory:"), list[Fact]()
    log.writer("a").append([trade(number) for number in range(1, 61)])
    continuity, absences = Continuity(["trades"], facts.append), Absences("toy")

    with closing(log.reader()) as reader:
        resume(StatusLocation("toy", "a", tmp_path), reader, continuity, absences, facts.append)

    [ids] = continuity.status()
    assert (ids.seen, ids.missing) == ([(1, 60)], [(61, 100)])
    assert [fact.count for fact in facts if isinstance(fact, RecordsLost)] == [40]
    assert continuity.last(TRADES) == 60
