"""Every process has an entry in the process cache, whatever the store of live values does."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.waiting import PATIENCE_S

from penstock.clock import ManualClock, SystemClock
from penstock.config import Collect, Live, Settings
from penstock.live import ProcessCache, ProcessInfo, ProcessStatus, ProcessType, live_url
from penstock.publish import PublishedCounts
from penstock.runtime import heartbeat
from penstock.runtime.heartbeat import Heartbeat
from penstock.runtime.identity import has_ended, identity_of
from penstock.runtime.process import Process
from penstock.runtime.sinks import Identified, LiveSink, component_of
from penstock.runtime.status import (
    GONE_MS,
    LIVE_GONE_MS,
    Report,
    SeenProcess,
    merged,
    read_live_processes,
)
from penstock.runtime.status import ProcessStatus as Status
from penstock.storage.cache import LiveStore, LiveValue
from penstock.telemetry import Fact, quiet

CLOCK = SystemClock()
STATUS = Status(
    kind="work", name="work-0", host="one", pid=1, folder="/data", started_ms=1, at_ms=2,
    state="running", doing="2 of 8 jobs running",
)  # fmt: skip


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(collect=Collect(data_dir=str(tmp_path)))


@pytest.fixture
async def cache(settings: Settings) -> AsyncIterator[ProcessCache]:
    async with ProcessCache(live_url(settings)) as opened:
        yield opened


async def entry(cache: ProcessCache, true: Callable[[ProcessInfo], bool]) -> ProcessInfo:
    """Wait for an entry for which something is true."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for each in await cache.get_processes():
                if true(each):
                    return each
            await asyncio.sleep(0.01)


async def test_every_process_is_among_the_active_ones(
    settings: Settings, cache: ProcessCache
) -> None:
    async with Process("bus", settings, CLOCK) as process:
        process.name = "bus"
        process.running(lambda: Report(doing="forwards"))
        await entry(cache, lambda each: each.status is ProcessStatus.RUNNING)
        [active] = await cache.get_active_processes()
        [seen] = await read_live_processes(cache)

    assert (active.process_type, active.component) == (ProcessType.BUS, process.status_id())
    assert active.message == "forwards"
    assert active.process_id == process.process_id
    assert (seen.id, seen.gone) == (process.status_id(), False)
    assert (seen.status.name, seen.status.health) == ("bus", "healthy")
    assert await cache.get_active_processes() == []
    [stopped] = await cache.get_processes()
    assert stopped.status is ProcessStatus.STOPPED


async def test_it_is_starting_before_it_runs_and_a_failure_has_its_reason(
    settings: Settings, cache: ProcessCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "_EVERY_S", 0.02)

    async def fail() -> None:
        async with Process("serve", settings, CLOCK) as process:
            process.name = "serve-1"
            await entry(cache, lambda each: each.status is ProcessStatus.STARTING)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await fail()

    [failed] = await cache.get_processes()
    assert (failed.status, failed.message) == (ProcessStatus.ERROR, "ValueError: broken")


def test_every_kind_of_process_has_a_type() -> None:
    package = Path(__file__).parents[2] / "src/penstock"
    files = [path for part in ("app", "cli") for path in (package / part).glob("*.py")]
    source = "".join(path.read_text() for path in files)
    kinds = set(re.findall(r'Process\("(\w+)"', source))

    assert {"collect", "work", "tickers", "up"} <= kinds
    assert kinds <= {*ProcessType}


async def test_a_process_goes_on_without_the_store_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "_EVERY_S", 0.01)
    monkeypatch.setattr(heartbeat, "GONE_MS", 50)
    facts: list[Fact] = []
    (tmp_path / "file").touch()
    live = Live(url=f"sqlite:{tmp_path / 'file' / 'live.db'}")
    settings = Settings(collect=Collect(data_dir=str(tmp_path)), live=live)
    async with asyncio.timeout(PATIENCE_S):
        async with Process("bus", settings, CLOCK, facts.append) as process:
            process.name = "bus"
            process.running(lambda: Report(doing="forwards"))
            while not facts:  # noqa: ASYNC110 (nobody would set an event)
                await asyncio.sleep(0.01)
    assert [type(fact).__name__ for fact in facts] == ["StatusNotStored"]


async def test_an_entry_is_written_every_thirty_seconds_and_when_the_state_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writes, put = 0, LiveStore.put

    async def counting(store: LiveStore, space: str, values: list[LiveValue]) -> int:
        nonlocal writes
        writes += 1
        return await put(store, space, values)

    monkeypatch.setattr(LiveStore, "put", counting)
    clock, shown = ManualClock(1_700_000_000_000), STATUS
    beats = Heartbeat(lambda: Identified("x", shown), clock, quiet)
    beats.sink = sink = LiveSink(Settings(live=Live(url="memory:")), clock)
    task = asyncio.create_task(beats.run())
    for second in range(3600):
        shown = replace(STATUS, at_ms=second, last_data_ms=second, doing=f"{second} records")
        await clock.advance(1.0)
    assert 119 <= writes <= 121
    shown = replace(STATUS, state="stopped")
    await beats.finish()
    assert writes <= 122
    task.cancel()
    assert sink._cache is not None
    [found] = await sink._cache.get_processes()
    assert found.status is ProcessStatus.STOPPED
    await sink.close()


def test_what_is_too_large_for_an_entry_is_left_out() -> None:
    long = replace(
        STATUS,
        problems=["ü" * 300] * 6,
        published={f"p{n}": PublishedCounts(published=n, dropped=0) for n in range(200)},
    )

    async def written(status: Status, id_: str) -> list[SeenProcess]:
        sink = LiveSink(Settings(live=Live(url="memory:")), CLOCK)
        await sink.write(Identified(id_, status))
        assert sink._cache is not None
        assert len(await sink._cache.get_active_processes()) == 1
        found = await read_live_processes(sink._cache)
        await sink.close()
        return found

    [shown] = asyncio.run(written(long, "x"))
    assert (shown.status.problems, shown.status.published) == (["ü" * 300], {})
    assert asyncio.run(written(replace(STATUS, folder="/f" * 3000), "y" * 5000)) == []


def test_a_component_is_the_id_unless_it_is_too_long() -> None:
    assert component_of("host:/data/bus", "bus") == "host:/data/bus"
    one, other = (component_of(f"host:/{'x' * 300}{n}/bus", "bus") for n in "ab")
    assert one != other
    assert one.endswith("/bus")


def test_a_process_of_this_machine_is_gone_as_soon_as_it_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        known = identity_of(child.pid)
        status = replace(STATUS, pid=child.pid, identity=known)
        assert known
        assert not SeenProcess("x", status, 0).gone
        child.kill()

    assert SeenProcess("x", status, 0).gone
    assert not SeenProcess("x", replace(status, state="stopped"), 0).gone


def test_another_process_with_the_same_number_is_not_taken_for_it() -> None:
    number = os.getpid()
    assert not has_ended(identity_of(number), number)
    assert has_ended(identity_of(number) + "0", number), "it started at another time"
    assert not has_ended("another-boot/pid:[1]/5", number), "of another machine nothing is known"
    assert not has_ended("", number)
    assert identity_of(2**22 + 1) == ""


seen = st.builds(
    SeenProcess,
    st.sampled_from("abc"),
    st.just(STATUS),
    st.integers(0, 200_000),
    st.sampled_from([GONE_MS, LIVE_GONE_MS]),
)


@given(st.lists(seen), st.lists(seen))
def test_of_several_reports_the_latest_counts(
    some: list[SeenProcess], others: list[SeenProcess]
) -> None:
    found = merged(some, others)

    assert {each.id: each.silent_ms for each in found} == {
        id_: min(each.silent_ms for each in (*some, *others) if each.id == id_)
        for id_ in {each.id for each in (*some, *others)}
    }
