"""A process and its status in the store: from its start to its end, whatever the store does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.events import trade
from tests.waiting import PATIENCE_S

from penstock.clock import SystemClock
from penstock.config import Collect, Settings
from penstock.config import State as StateSettings
from penstock.errors import SlotInUse, StoreUnreachable
from penstock.market.events import Event
from penstock.runtime import heartbeat, trimming
from penstock.runtime.facts import StatusNotStored, TaskFailed
from penstock.runtime.heartbeat import Heartbeat
from penstock.runtime.process import Process
from penstock.runtime.recording import RecordingProcess
from penstock.runtime.sinks import Identified, StateSink
from penstock.runtime.status import ProcessStatus, Report, SeenProcess, State, read_processes
from penstock.runtime.stores import open_state
from penstock.storage.lake.documents import Deletion, SealState, merge_seals
from penstock.storage.log.keys import key_of_id, stream_of
from penstock.storage.state import StateStore
from penstock.telemetry import Fact, quiet

CLOCK = SystemClock()


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "_EVERY_S", 0.02)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(collect=Collect(data_dir=str(tmp_path)))


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[StateStore]:
    async with open_state(settings, CLOCK) as opened:
        yield opened


async def eventually(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not true():  # noqa: ASYNC110 (nobody would set an event)
            await asyncio.sleep(0.01)


async def seen(store: StateStore, true: Callable[[ProcessStatus], bool]) -> SeenProcess:
    """Wait for a status in the store for which something is true."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for each in await read_processes(store):
                if true(each.status):
                    return each
            await asyncio.sleep(0.01)


async def test_a_status_from_the_start_to_the_end(settings: Settings, store: StateStore) -> None:
    report = Report(doing="forwards", activity=0)
    async with Process("bus", settings, CLOCK) as process:
        process.name = "bus"
        await process.open_state()
        starting = await seen(store, lambda status: status.state == "starting")
        process.running(lambda: report)
        running = await seen(store, lambda status: status.state == "running")
        report = Report(doing="forwards", activity=1)
        active = await seen(store, lambda status: status.last_data_ms is not None)
        report = Report(doing="forwards", activity=1, problems=("nobody listens",))
        impaired = await seen(store, lambda status: status.health == "impaired")
    [stopped] = await read_processes(store)

    assert running.status.last_data_ms is None
    assert running.status.doing == "forwards"
    assert running.status.folder == str(process.folder.resolve())
    assert impaired.status.problems == ["nobody listens"]
    assert stopped.status.state == "stopped"
    assert stopped.status.last_data_ms == active.status.last_data_ms
    assert {each.id for each in (starting, running, impaired)} == {stopped.id}


async def test_a_failure_is_told_with_its_reason(settings: Settings, store: StateStore) -> None:
    async def fail() -> None:
        async with Process("bus", settings, CLOCK) as process:
            process.name = "bus"
            await process.open_state()
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await fail()

    [failed] = await read_processes(store)
    assert (failed.status.state, failed.status.health) == ("failed", "failed")
    assert failed.status.problems == ["ValueError: broken"]


async def test_a_background_task_that_fails_is_logged_and_the_process_continues(
    settings: Settings,
) -> None:
    async def fails() -> None:
        raise KeyError("until")

    facts: list[Fact] = []
    async with Process("bus", settings, CLOCK, facts.append) as process:
        process.start(fails())
        await eventually(lambda: bool(facts))

    [fact] = facts
    assert isinstance(fact, TaskFailed)
    assert fact.task.endswith("fails")
    assert fact.reason == "KeyError('until')"


async def test_a_cancelled_process_has_stopped(settings: Settings, store: StateStore) -> None:
    async def run() -> None:
        async with Process("bus", settings, CLOCK) as process:
            process.name = "bus"
            await process.open_state()
            await asyncio.Event().wait()

    task = asyncio.create_task(run())
    await seen(store, lambda status: status.state == "starting")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    [stopped] = await read_processes(store)
    assert stopped.status.state == "stopped"


async def test_who_is_refused_a_slot_does_not_speak_for_its_owner(
    settings: Settings, store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The owner's next status must not hide what the other one wrote.
    monkeypatch.setattr(heartbeat, "_EVERY_S", PATIENCE_S)

    async def intrude() -> None:
        async with RecordingProcess("fetch", settings, CLOCK) as second:
            await second.open_state()
            second.own_slot("fetch-toy")

    async with RecordingProcess("fetch", settings, CLOCK) as owner:
        await owner.open_state()
        owner.own_slot("fetch-toy")
        owner.running(lambda: Report(doing="fetches"))
        await seen(store, lambda status: status.state == "running")
        with pytest.raises(SlotInUse):
            await intrude()
        [status] = await read_processes(store)
        assert (status.status.state, status.status.doing) == ("running", "fetches")


async def test_a_process_that_needs_no_store_runs_without(tmp_path: Path) -> None:
    facts: list[Fact] = []
    away = StateSettings(url=f"postgresql://nobody@/none?host={tmp_path}", timeout=0.2)
    settings = Settings(collect=Collect(data_dir=str(tmp_path)), state=away)
    async with Process("bus", settings, CLOCK, facts.append) as process:
        process.name = "bus"
        process.open_state_later()
        await eventually(lambda: bool(facts))

    assert [type(fact) for fact in facts] == [StatusNotStored]


class Away:
    """A store that does not answer for a while."""

    def __init__(self, store: StateStore) -> None:
        self.is_away, self._store, self.refused = True, store, 0

    async def write(self, *asked: Any) -> Any:
        if self.is_away:
            self.refused += 1
            raise StoreUnreachable("test", "away")
        return await self._store.write(*asked)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def status(state: State) -> Identified:
    told = ProcessStatus(
        kind="bus", name="bus", host="h", pid=1, folder="/", started_ms=0, at_ms=0, state=state
    )
    return Identified("bus", told)


async def test_a_store_that_is_away_for_a_moment_loses_no_status(store: StateStore) -> None:
    facts: list[Fact] = []
    beats = Heartbeat(lambda: status("running"), CLOCK, facts.append)
    away = Away(store)
    beats.sink = StateSink(away)  # type: ignore[arg-type]
    task = asyncio.create_task(beats.run())
    await eventually(lambda: away.refused >= 3 or task.done())
    assert not task.done()
    away.is_away = False
    await seen(store, lambda found: found.state == "running")
    task.cancel()
    assert facts == [], "a moment is not worth a line"


async def test_the_last_status_is_written_once_the_store_answers(store: StateStore) -> None:
    beats = Heartbeat(lambda: status("stopped"), CLOCK, quiet)
    away = Away(store)
    beats.sink = StateSink(away)  # type: ignore[arg-type]
    task = asyncio.create_task(beats.finish())
    await eventually(lambda: away.refused >= 1)
    away.is_away = False
    await task
    assert [found.status.state for found in await read_processes(store)] == ["stopped"]


async def test_a_store_that_stays_away_does_not_keep_a_process_from_ending(
    store: StateStore,
) -> None:
    beats = Heartbeat(lambda: status("stopped"), CLOCK, quiet)
    beats.sink = StateSink(Away(store))  # type: ignore[arg-type]
    async with asyncio.timeout(PATIENCE_S):
        await beats.finish()
    assert await read_processes(store) == []


async def test_the_owner_of_a_slot_deletes_what_the_keeper_names(
    settings: Settings, store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trimming, "_EVERY_S", 0.02)
    stream = stream_of(trade(1))
    async with RecordingProcess("toy", settings, CLOCK) as process:
        await process.open_state()
        process.own_slot("toy")
        recorder, _ = process.open_recorder()
        await recorder.record([trade(n, received_at_ns=n) for n in range(1, 11)])
        state = SealState(
            log_id=f"{process.log_id:x}", slot="toy", channel="trades",
            deletions={str(stream): Deletion(key_of_id(8).hex(), 10)},
        )  # fmt: skip
        await merge_seals(store, state)

        def left() -> list[Event]:
            # A reader that is open already sees a deletion with the next record at the latest.
            with closing(process.log.reader()) as reader:
                return [each.event for each in reader.scan(stream)]

        await eventually(lambda: len(left()) < 10)
        assert left() == [trade(n, received_at_ns=n) for n in (8, 9, 10)]


async def test_a_slot_that_a_backup_uses_for_a_moment_is_waited_for(settings: Settings) -> None:
    async with RecordingProcess("collect", settings, CLOCK) as process:
        copying = process.log.writer("a", briefly=True)
        asyncio.get_running_loop().call_later(0.2, copying.close)

        writer = await process.take_slot("a")

        assert writer.slot == "a"


async def test_a_slot_of_another_process_is_refused_at_once(settings: Settings) -> None:
    async with RecordingProcess("collect", settings, CLOCK) as process:
        with closing(process.log.writer("a")), pytest.raises(SlotInUse):
            async with asyncio.timeout(5):
                await process.take_slot("a")
