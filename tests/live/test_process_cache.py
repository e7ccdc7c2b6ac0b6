"""Processes report themselves: seldom, at once when the status changes, and not for ever."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.clock import ManualClock
from penstock.errors import BadProcess, StoreUnreachable, UnknownProcess
from penstock.live import (
    Outcome,
    ProcessCache,
    ProcessReport,
    ProcessStatus,
    ProcessType,
    Registration,
)
from penstock.live.process_cache import SPACE
from penstock.live.process_model import is_due
from penstock.storage.cache import LiveStore, LiveValue, open_live_store

STARTING, RUNNING, ERROR, STOPPED = ProcessStatus


class Counting(LiveStore):
    """A store that counts writes, and fails if it is told to."""

    writes = 0
    fails = False

    async def put(self, space: str, values: Any) -> int:
        if self.fails:
            raise StoreUnreachable("here", "is away")
        self.writes += 1
        return await super().put(space, values)


class Office(NamedTuple):
    clock: ManualClock
    store: Counting
    cache: ProcessCache


async def open_office() -> Office:
    clock = ManualClock(1_700_000_000_000)
    store = await open_live_store("memory:", clock=clock)
    counting = Counting(store._backend, clock, 5)
    return Office(clock, counting, ProcessCache(counting, clock=clock))


@pytest.fixture
async def office() -> Office:
    return await open_office()


async def register(cache: ProcessCache, component: str = "sim:BTC/USDT") -> str:
    return await cache.register_process(ProcessType.TICK, component, {"a": 1}, "Starting")


async def states(cache: ProcessCache) -> list[tuple[str, ProcessStatus, str]]:
    found = await cache.get_processes()
    return [(each.component, each.status, each.message) for each in found]


@pytest.fixture
async def cache(live_url: str) -> AsyncIterator[ProcessCache]:
    store = await open_live_store(live_url, timeout_s=30)
    yield ProcessCache(store)
    await store.close()


async def test_a_process_is_registered_reports_and_stops(cache: ProcessCache) -> None:
    id_ = await register(cache)
    work = await cache.register_process(ProcessType.WORK, "host/work-0", status=RUNNING)

    found = await cache.get_active_processes()
    assert [(each.process_id, each.process_type, each.status) for each in found] == [
        (id_, ProcessType.TICK, STARTING), (work, ProcessType.WORK, RUNNING),
    ]  # fmt: skip
    assert (found[0].params, found[0].pid, found[0].stale) == ({"a": 1}, os.getpid(), False)
    assert found[0].host
    assert found[0].started_ms > 0

    assert await cache.update_process(id_, RUNNING, "Running")
    assert not await cache.update_process(id_, RUNNING, "too soon")
    assert await cache.update_process(id_, ERROR, "socket closed")
    assert [each.message for each in await cache.get_active_processes(ProcessType.TICK)] == [
        "socket closed"
    ]
    assert await cache.stop_process(id_)
    assert [each.component for each in await cache.get_active_processes()] == ["host/work-0"]
    assert ("sim:BTC/USDT", STOPPED, "Stopped") in await states(cache)
    assert await cache.stop_process(work, "Bye")
    assert await cache.get_active_processes() == []


async def test_there_is_one_entry_per_component_and_the_last_registration_owns_it(
    live_url: str,
) -> None:
    store = await open_live_store(live_url, timeout_s=30)
    old, new = ProcessCache(store), ProcessCache(store)
    first = await register(old)
    second = await register(new)
    assert first != second

    assert not await old.update_process(first, ERROR, "of the one before")
    assert not await old.stop_process(first)
    assert not await ProcessCache(store).stop_process(first)
    assert not await ProcessCache(store).update_process(first, ERROR)
    assert await new.update_process(second, RUNNING, "mine")

    assert await states(new) == [("sim:BTC/USDT", RUNNING, "mine")]
    await store.close()


def many(count: int, of: str = "sim") -> list[Registration]:
    return [
        Registration(process_type=ProcessType.TICK, component=f"{of}:{number}/USDT")
        for number in range(count)
    ]


async def test_many_are_registered_report_and_stop_in_a_batch_each(cache: ProcessCache) -> None:
    # More than one script call of Redis, and more than one batch.
    ids = await cache.register_processes(many(1500))
    assert len(set(ids)) == 1500
    assert [each.process_id for each in await cache.get_active_processes()] == sorted(ids)

    reports = [ProcessReport(process_id=each, status=RUNNING, message="ok") for each in ids]
    assert await cache.update_processes(reports) == [Outcome.WRITTEN] * 1500
    assert await cache.update_processes(reports) == [Outcome.NOT_DUE] * 1500
    assert {(status, words) for _, status, words in await states(cache)} == {(RUNNING, "ok")}

    assert await cache.stop_processes(ids[1:]) == 1499
    assert [each.process_id for each in await cache.get_active_processes()] == ids[:1]


async def test_the_outcome_of_each_report_of_a_batch_is_told(live_url: str) -> None:
    store = await open_live_store(live_url, timeout_s=30)
    old, new = ProcessCache(store), ProcessCache(store)
    ours, lost, known_lost = await old.register_processes(many(3))
    await old.update_process(ours, RUNNING)
    theirs = await new.register_processes(many(3)[1:])
    reports = [
        ProcessReport(process_id=each, status=ERROR)
        for each in (lost, ours, "tick:nobody@1", known_lost)
    ]

    for reporter in (old, ProcessCache(store)):
        outcomes = await reporter.update_processes(reports)
        assert outcomes[0] == outcomes[3] == Outcome.TAKEN_OVER
        assert outcomes[2] == Outcome.UNKNOWN
        assert outcomes[1] in (Outcome.WRITTEN, Outcome.NOT_DUE)
        reports = [replace(each, status=RUNNING) for each in reports]
    assert await old.stop_processes([ours, lost, known_lost, "tick:nobody@1"]) == 1
    assert {each.process_id for each in await new.get_active_processes()} == {*theirs}
    await store.close()


async def test_a_batch_is_one_write_and_a_bad_entry_in_it_changes_nothing(office: Office) -> None:
    _, store, cache = office
    ids = await cache.register_processes(many(500))
    reports = [ProcessReport(process_id=each, status=RUNNING) for each in ids]
    with pytest.raises(BadProcess, match="component"):
        await cache.register_processes([*many(3, "other"), replace(many(1)[0], component="")])
    with pytest.raises(BadProcess, match="status"):
        await cache.update_processes([*reports, replace(reports[0], status=cast("Any", ""))])
    assert store.writes == 1
    assert {status for _, status, _ in await states(cache)} == {STARTING}

    await cache.update_processes(reports)
    await cache.stop_processes(ids)
    assert store.writes == 3
    assert len(cache._written) == 0
    assert await cache.register_processes([]) == await cache.update_processes([]) == []
    assert await cache.stop_processes([]) == 0
    assert store.writes == 3


async def test_a_component_that_is_named_twice_belongs_to_the_later(office: Office) -> None:
    first, second = await office.cache.register_processes(many(1) * 2)

    assert first != second
    assert await office.cache.update_process(second, RUNNING)
    assert not await office.cache.update_process(first, ERROR)
    assert [status for _, status, _ in await states(office.cache)] == [RUNNING]


async def test_the_same_cache_may_register_again(office: Office) -> None:
    first = await register(office.cache)
    for _ in range(100):
        second = await register(office.cache)

    assert not await office.cache.update_process(first, ERROR)
    assert await office.cache.update_process(second, RUNNING)
    assert len(office.cache._written) == 1, "memory does not grow with registrations"


async def test_a_report_is_written_every_thirty_seconds_at_most(office: Office) -> None:
    clock, store, cache = office
    id_ = await register(cache)
    await cache.update_process(id_, RUNNING)
    before = store.writes
    for _ in range(3600):
        await cache.update_process(id_, RUNNING, "tick")
        clock._now_ns += 1_000_000_000

    assert store.writes - before == 119


async def test_reports_at_the_same_moment_are_written_once(office: Office) -> None:
    id_ = await register(office.cache)
    before = office.store.writes

    await asyncio.gather(*(office.cache.update_process(id_, RUNNING) for _ in range(10)))
    other = ProcessCache(office.store, clock=office.clock)
    await office.clock.advance(31)
    await asyncio.gather(*(other.update_process(id_) for _ in range(10)))

    assert office.store.writes - before == 2


async def test_a_failed_report_is_due_again(office: Office) -> None:
    id_ = await register(office.cache)
    office.store.fails = True
    for _ in range(2):
        with pytest.raises(StoreUnreachable):
            await office.cache.update_process(id_, RUNNING)
    with pytest.raises(StoreUnreachable):
        await register(office.cache, "another")
    with pytest.raises(StoreUnreachable):
        await office.cache.stop_process(id_)
    office.store.fails = False

    assert await office.cache.update_process(id_, RUNNING)


async def test_after_three_missed_beats_it_is_stale_and_later_removed(office: Office) -> None:
    clock, store, cache = office
    await register(cache)
    stopped = await register(cache, "stopped")
    await cache.stop_process(stopped)
    seen = []
    for _ in range(5):
        await clock.advance(75)
        found = await cache.get_processes()
        seen.append(([(each.age_ms, each.stale) for each in found], len(
            await cache.get_active_processes()
        )))  # fmt: skip

    assert seen == [
        ([(75_000, False)] * 2, 1), ([(150_000, True)] * 2, 0), ([(225_000, True)] * 2, 0),
        ([], 0), ([], 0),
    ]  # fmt: skip
    await store.put(SPACE, [LiveValue("x", b"{}", 1000)])
    assert {*store._backend._spaces[SPACE]} == {"x"}  # type: ignore[attr-defined]


async def test_a_process_that_was_asleep_is_there_again_with_its_next_report(
    office: Office,
) -> None:
    id_ = await register(office.cache)
    await office.clock.advance(1000)
    assert await office.cache.get_processes() == []

    assert await office.cache.update_process(id_, message="awake")
    [found] = await office.cache.get_active_processes()
    assert (found.status, found.message, found.params) == (STARTING, "awake", {"a": 1})
    with pytest.raises(UnknownProcess, match="Register it again"):
        await ProcessCache(office.store).update_process("tick:nobody@1", RUNNING)
    assert not await office.cache.stop_process("tick:nobody@1")


async def test_bad_input_is_refused_and_changes_nothing(cache: ProcessCache) -> None:
    anything: Any = cache.register_process
    for field, arguments in (
        ("process_type", ("unheard of", "c")),
        ("process_type", (None, "c")),
        ("component", (ProcessType.TICK, "")),
        ("component", (ProcessType.TICK, None)),
        ("component", (ProcessType.TICK, object())),
        ("component", (ProcessType.TICK, "a\0b")),
        ("component", (ProcessType.TICK, "x" * 201)),
        ("params", (ProcessType.TICK, "c", {"x": object()})),
        ("params", (ProcessType.TICK, "c", [1])),
        ("params", (ProcessType.TICK, "c", {"x": "y" * 5000})),
        ("status", (ProcessType.TICK, "c", {}, "", "well")),
    ):
        with pytest.raises(BadProcess, match=field) as refusal:
            await anything(*arguments)
        assert refusal.value.field == field
    assert await cache.get_processes() == []
    id_ = await register(cache)
    with pytest.raises(BadProcess, match="status"):
        await cache.update_process(id_, cast("Any", "well"))


async def test_messages_are_short_and_have_no_passwords(office: Office) -> None:
    id_ = await register(office.cache)
    await office.cache.update_process(id_, ERROR, f"redis://me:hunter2@host/0 {'x' * 1000}")

    [(_, _, message)] = await states(office.cache)
    assert "hunter2" not in message
    assert len(message) <= 301


async def test_entries_of_others_are_passed_over(office: Office) -> None:
    await office.store.put(SPACE, [LiveValue("tick:a", b'{"later":"version"}', 1000)])

    assert await office.cache.get_processes() == []
    with pytest.raises(UnknownProcess):
        await office.cache.update_process("tick:a@1")


reports = st.lists(st.tuples(st.integers(0, 40), st.sampled_from([RUNNING, ERROR])), max_size=60)


@given(reports)
async def test_every_change_is_written_and_nothing_else_within_thirty_seconds(
    reports: list[tuple[int, ProcessStatus]],
) -> None:
    clock, _, cache = await open_office()
    id_ = await register(cache)
    written_s, shown, now_s = 0, STARTING, 0
    for pause_s, status in reports:
        await clock.advance(pause_s)
        now_s += pause_s

        written = await cache.update_process(id_, status)

        assert written == (status != shown or now_s - written_s >= 30)
        if written:
            written_s, shown = now_s, status
        [found] = await cache.get_active_processes()
        assert found.status == status, "what is shown is never the status before"


@given(st.sampled_from(ProcessStatus), st.sampled_from(ProcessStatus), st.integers(0, 60_000))
def test_a_report_is_due_by_status_or_by_time(
    before: ProcessStatus, status: ProcessStatus, since_ms: int
) -> None:
    assert is_due(before, status, since_ms) == (before != status or since_ms >= 30_000)
