"""A keeper whose lake is on a full or read-only disk: nothing is lost, and it goes on later."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.keep.conftest import HOUR_NS, LOG_ID, SLOT, World, trades
from tests.keep.disks import Disk, LimitedFolder, mounted

from penstock.keep.facts import KeepingFailed
from penstock.keep.keeper import Keeper
from penstock.market.channels import TRADES
from penstock.market.codec import decode
from penstock.market.events import Trade
from penstock.runtime.trimming import Trimmer
from penstock.storage.lake.documents import read_seals

SEALING = f"sealing trades of {SLOT}"
LARGE = 20_000


@pytest.fixture(params=["mounted", "limited"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """The disk of the lake."""
    if request.param == "mounted":
        with mounted(tmp_path / "lake") as found:
            yield found
    else:
        (tmp_path / "lake").mkdir()
        yield LimitedFolder(tmp_path / "lake")


async def trim(world: World) -> None:
    """Delete as the owner of the slot does."""
    trimmer = Trimmer(world.writer, LOG_ID, world.clock, world.facts.append)
    await trimmer.trim(await read_seals(world.store, LOG_ID, SLOT))


async def check_goes_on(world: World, keeper: Keeper, written: list[bytes]) -> None:
    """Check that all is sealed now, and that the log is trimmed."""
    await keeper.run_once()
    assert keeper.problems == {}
    assert world.in_lake(TRADES) == written
    await trim(world)
    assert len(world.in_log(TRADES)) == 1, "the last record stays"


async def test_on_a_full_disk_the_log_keeps_what_is_not_sealed(disk: Disk, world: World) -> None:
    world.append(trades(1, 50, age_ns=100 * HOUR_NS))
    keeper = world.keeper(hot=3600, most=1)
    await keeper.seal_all()
    world.append(trades(51, LARGE, age_ns=90 * HOUR_NS))
    written = world.in_log(TRADES)

    with disk.full():
        for _ in range(2):
            await keeper.run_once()
            problem = keeper.problems[SEALING]
            assert "the disk is full" in problem
            assert "Free some space" in problem
        assert f"{SEALING}: {problem}" in keeper.report().problems
        told = [fact for fact in world.facts if isinstance(fact, KeepingFailed)]
        assert any(fact.what == SEALING and fact.reason == problem for fact in told)
    await trim(world)
    assert world.in_log(TRADES) == [each for each in written if not is_sealed(each)]

    await check_goes_on(world, keeper, written)


async def test_space_may_run_out_at_any_step(disk: Disk, world: World) -> None:
    keeper, written, failed = world.keeper(hot=3600, most=1), list[bytes](), 0
    for step in range(10):
        first = step * 400 + 1
        world.append(trades(first, first + 399, age_ns=(200 - step) * HOUR_NS))
        written += [each for each in world.in_log(TRADES) if id_of(each) >= first]
        with disk.full(spare=step * 4096):
            await keeper.run_once()
        failed += bool(keeper.problems)
        assert all("the disk is full" in each for each in keeper.problems.values())
        await trim(world)
        exists = any(disk.folder.glob("trades/_delta_log/*.json"))
        sealed = world.in_lake(TRADES) if exists else []
        assert len(sealed) == len(set(sealed))
        assert sorted({*sealed, *world.in_log(TRADES)}) == sorted(written)
        if step % 2:
            await keeper.run_once()
            assert keeper.problems == {}
    assert failed

    await check_goes_on(world, keeper, sorted(written))


def is_sealed(record: bytes) -> bool:
    """Whether it was sealed before the disk was full or read-only."""
    return id_of(record) <= 50


def id_of(record: bytes) -> int:
    event = decode(record)
    assert isinstance(event, Trade)
    return event.id


async def test_on_a_read_only_disk_the_log_keeps_what_is_not_sealed(
    disk: Disk, world: World
) -> None:
    world.append(trades(1, 50, age_ns=100 * HOUR_NS))
    keeper = world.keeper(hot=3600, most=1)
    await keeper.seal_all()
    world.append(trades(51, 99, age_ns=90 * HOUR_NS))
    written = world.in_log(TRADES)

    with disk.read_only():
        await keeper.run_once()
        problem = keeper.problems[SEALING]
        assert "lake/trades" in problem
        assert "the log keeps its records" in problem
        assert forbids_writing(problem) or disk.is_replaced
    await trim(world)
    assert world.in_log(TRADES) == [each for each in written if not is_sealed(each)]

    await check_goes_on(world, keeper, written)


def forbids_writing(problem: str) -> bool:
    return "is read-only. Mount it so" in problem or "Check its permissions" in problem


async def test_a_lake_that_cannot_be_created_is_reported(disk: Disk, world: World) -> None:
    world.append(trades(1, 50, age_ns=100 * HOUR_NS))
    keeper, written = world.keeper(hot=3600), world.in_log(TRADES)

    with disk.read_only():
        await keeper.run_once()
        assert forbids_writing(keeper.problems[SEALING])
    await trim(world)
    assert world.in_log(TRADES) == written

    await check_goes_on(world, keeper, written)
