"""Stores of live values that cannot be opened or used: a clear error in time, and no leak."""

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import PATIENCE_S

from penstock.clock import ManualClock, SystemClock
from penstock.errors import ConfigError, StorageError, StorageFull, StoreUnreachable
from penstock.storage.cache import LiveStore, LiveValue, open_live_store
from penstock.storage.cache.facts import LiveChangesLost
from penstock.storage.cache.memory import MemoryBackend
from penstock.storage.cache.sqlite import SqliteBackend
from penstock.storage.cache.watching import Deliver, Subscription
from penstock.telemetry import Fact

TTL = 300_000


def value(key: str = "a", number: int = 1, age: int = 0) -> LiveValue:
    return LiveValue(key, b"1", TTL, age, "u", number)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("reddis://me:secret@host", "Did you mean redis: or rediss:"),
        ("sqllite:x", "Did you mean sqlite:?"),
        ("mongodb://me:secret@host", "begins with sqlite: or rediss: or redis: or memory:"),
        ("", "begins with sqlite:"),
        ("/srv/secret/live.db", "begins with sqlite:"),
        ("values:x", "is no kind of store"),
        ("sqlite:", "names no file"),
        ("memory:x", "has no path"),
    ],
)
async def test_an_unknown_scheme_names_those_that_are_near(url: str, says: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        await open_live_store(url)
    assert says in str(refusal.value)
    assert "secret" not in str(refusal.value)


def test_a_missing_library_is_named_with_its_extra() -> None:
    code = (
        "import asyncio, sys; sys.modules['redis'] = None\n"
        "from penstock.storage.cache import open_live_store\n"
        "asyncio.run(open_live_store('redis://x'))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "MissingExtra" in done.stderr.splitlines()[-1]
    assert "pip install 'penstock[redis]'" in done.stderr


def test_without_redis_nothing_of_it_is_imported() -> None:
    code = "import sys, penstock.live; assert not {'redis', 'hiredis'} & {*sys.modules}"

    subprocess.run([sys.executable, "-c", code], check=True)


class Machine:
    """A machine's clock, which only runs, and starts again with every boot."""

    def __init__(self) -> None:
        self.boot, self.up_ms = "first", 1_000_000

    def boot_id(self) -> str:
        return self.boot

    def since_boot_ns(self) -> int:
        return self.up_ms * 1_000_000

    def wall_ns(self) -> int:
        raise AssertionError("the time of day may be stepped")

    async def open(self, path: Path) -> LiveStore:
        backend = SqliteBackend(path, SystemClock(), self, PATIENCE_S)
        await backend.open()
        return LiveStore(backend, SystemClock(), PATIENCE_S)


async def test_values_age_by_the_time_since_boot(tmp_path: Path) -> None:
    machine = Machine()
    stores = [await machine.open(tmp_path / "live.db") for _ in range(2)]
    await stores[0].put("ticks", [value(), value("b", age=200_000)])
    seen = []
    for _ in range(4):
        found = await stores[1].find("ticks")
        assert [await stores[0].get("ticks", each.key) for each in found] == found
        seen.append([(each.key, each.age_ms) for each in found])
        machine.up_ms += 100_000

    assert seen == [
        [("a", 0), ("b", 200_000)], [("a", 100_000)], [("a", 200_000)], [],
    ]  # fmt: skip
    assert await stores[0].put("ticks", [value(number=0)]) == 1, "what expired blocks nothing"
    for store in stores:
        await store.close()


async def test_values_of_an_earlier_boot_are_gone(tmp_path: Path) -> None:
    machine = Machine()
    before = await machine.open(tmp_path / "live.db")
    await before.put("ticks", [value(number=9)])
    await before.close()
    machine.boot, machine.up_ms = "second", 100

    after = await machine.open(tmp_path / "live.db")

    assert await after.find("ticks") == []
    assert await after.put("ticks", [value(number=1)]) == 1
    await after.close()


async def test_what_expired_is_removed_from_the_file(tmp_path: Path) -> None:
    machine = Machine()
    store = await machine.open(tmp_path / "live.db")
    await store.put("ticks", [value(f"k{number}") for number in range(100)])
    machine.up_ms += 400_000
    await store.put("ticks", [value("new")])

    database = sqlite3.connect(tmp_path / "live.db")
    assert database.execute("SELECT key FROM live").fetchall() == [("new",)]
    database.close()
    await store.close()


async def test_a_locked_file_is_said_in_time_and_can_be_read(tmp_path: Path) -> None:
    store = await open_live_store(f"sqlite:{tmp_path / 'live.db'}", timeout_s=PATIENCE_S)
    await store.put("ticks", [value()])
    holder = sqlite3.connect(tmp_path / "live.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")

    assert await store.get("ticks", "a") is not None, "readers wait for no writer"
    cast("SqliteBackend", store._backend)._writer.execute("PRAGMA busy_timeout = 100")
    with pytest.raises(StoreUnreachable, match="locked"):
        await store.put("ticks", [value(number=2)])

    holder.execute("ROLLBACK")
    holder.close()
    assert await store.put("ticks", [value(number=2)]) == 1
    await store.close()


async def test_a_full_disk_is_named_as_such_and_passes(tmp_path: Path) -> None:
    store = await open_live_store(f"sqlite:{tmp_path / 'live.db'}", timeout_s=PATIENCE_S)
    database = cast("SqliteBackend", store._backend)._writer
    [(pages,)] = database.execute("PRAGMA page_count")
    database.execute(f"PRAGMA max_page_count = {pages}")
    many = [value(f"k{number}") for number in range(5000)]

    with pytest.raises(StorageFull, match="full"):
        await store.put("ticks", many)
    assert await store.find("ticks") == []
    database.execute("PRAGMA max_page_count = 1000000")
    assert await store.put("ticks", many) == 5000
    await store.close()


async def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("buy milk\n" * 200)
    (tmp_path / "file").touch()

    for name in ("notes.txt", "file/live.db"):
        with pytest.raises(StorageError, match=name):
            await open_live_store(f"sqlite:{tmp_path / name}")
    assert (tmp_path / "notes.txt").read_text().startswith("buy milk")


class Breaks(MemoryBackend):
    """A store whose changes cannot be received, a few times or for ever."""

    def __init__(self, clock: ManualClock, error: Exception, times: int) -> None:
        super().__init__(clock)
        self.error, self.times, self.attempts = error, times, 0

    async def watch(self, space: str, deliver: Deliver) -> None:
        self.attempts += 1
        if self.attempts <= self.times:
            raise self.error
        await super().watch(space, deliver)


async def test_lost_changes_are_told_once_and_retried() -> None:
    clock, facts = ManualClock(), list[Fact]()
    backend = Breaks(clock, StoreUnreachable("here", "is away"), 20)
    store = LiveStore(backend, clock, 5, facts.append)
    await store.put("ticks", [value()])
    async with store.changes("ticks") as changes:
        await clock.advance(10)
        assert 6 <= backend.attempts < 20, "with growing delays"
        await clock.advance(60)
        [seen] = await changes.next_batch()
        assert 70_000 <= seen.age_ms <= 70_001, "rounded up"
    assert facts == [
        LiveChangesLost(store="memory:", space="ticks", reason=str(backend.error)),
    ]  # fmt: skip


async def test_a_bug_reaches_the_reader() -> None:
    clock = ManualClock()
    store = LiveStore(Breaks(clock, KeyError("a bug"), 1), clock, 5)
    async with asyncio.timeout(PATIENCE_S), store.changes("ticks") as changes:
        with pytest.raises(KeyError, match="a bug"):
            await changes.next_batch()


async def test_a_driver_that_swallows_a_cancellation_is_cancelled_again() -> None:
    class Swallows(MemoryBackend):
        async def watch(self, space: str, deliver: Deliver) -> None:
            for _ in range(3):
                try:
                    await asyncio.get_running_loop().create_future()
                except asyncio.CancelledError:
                    continue
            await super().watch(space, deliver)

    store = LiveStore(Swallows(ManualClock()), ManualClock(), 5)
    async with asyncio.timeout(PATIENCE_S):
        async with store.changes("ticks"):
            await asyncio.sleep(0)
        await store.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


offers = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.integers(0, 9), st.integers(0, 350_000), st.integers(0, 200)
    ),
    max_size=30,
)


@given(offers, st.integers(1, 5))
async def test_a_subscription_holds_one_value_per_key_the_newest_that_is_fresh(
    offers: Sequence[tuple[str, int, int, int]], every: int
) -> None:
    clock = ManualClock()
    subscription = Subscription(clock)
    waiting = dict[str, tuple[int, int]]()  # when it was received, and its number
    for place, (key, number, age_ms, pause_s) in enumerate(offers):
        subscription.offer([value(key, number, age_ms)])
        known = waiting.get(key)
        if known is None or number >= known[1]:
            waiting[key] = clock.now_ms() - age_ms, number
        await clock.advance(pause_s)
        if place % every == 0:
            now_ms = clock.now_ms()
            expected = {
                key: (now_ms - at_ms, number)
                for key, (at_ms, number) in waiting.items()
                if now_ms - at_ms < TTL
            }
            if expected:
                batch = await subscription.next_batch()
                assert {each.key: (each.age_ms, each.number) for each in batch} == expected
            else:
                subscription._latest.take()
            waiting.clear()
