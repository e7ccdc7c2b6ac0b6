"""The leases of daemons, in a store of live values and by a clock that the test moves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.clock import ManualClock
from penstock.errors import StoreUnreachable
from penstock.storage.cache import LiveStore, LiveValue, open_live_store
from penstock.telemetry import Fact
from penstock.tickers.facts import SymbolsNotRead
from penstock.tickers.membership import SPACE, Membership
from penstock.tickers.partition import Member

A, B = Member("a"), Member("b", ("binance",))
ALONE: tuple[Member, ...] = (A,)
BOTH: tuple[Member, ...] = (A, B)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture
async def store(clock: ManualClock) -> AsyncIterator[LiveStore]:
    store = await open_live_store("memory:", clock=clock)
    yield store
    await store.close()


@asynccontextmanager
async def running(*some: Membership) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(each.run()) for each in some]
    yield tasks
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_daemons_see_each_other_for_as_long_as_they_renew(
    store: LiveStore, clock: ManualClock
) -> None:
    a, b = Membership(store, A, clock), Membership(store, B, clock)
    await a.join()
    assert a.members == ALONE
    assert not a.changed.is_set()
    async with running(a):
        await clock.advance(0.5)
        await b.join()
        assert b.members == BOTH, "the newcomer begins at once"
        async with running(b):
            await clock.advance(1.5)
            assert a.members == BOTH
            assert a.changed.is_set()
            await clock.advance(60.5)
            assert a.members == b.members == BOTH
        # Killed just after it renewed its lease, which it does not give up.
        a.changed.clear()
        await clock.advance(5.9)
        assert a.members == BOTH
        await clock.advance(0.2)
        assert a.members == ALONE, "when the lease ends, not when a renews its own"
        assert a.changed.is_set()


async def test_a_daemon_that_leaves_is_gone_at_the_next_renewal(
    store: LiveStore, clock: ManualClock
) -> None:
    a, b = Membership(store, A, clock), Membership(store, B, clock)
    await a.join()
    await b.join()
    async with running(a):
        await clock.advance(2.0)
        await b.leave()
        await clock.advance(2.0)
        assert a.members == ALONE


async def test_while_the_store_does_not_answer_the_last_members_count(
    store: LiveStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts: list[Fact] = []
    a, b = Membership(store, A, clock, facts.append), Membership(store, B, clock)
    await b.join()
    await a.join()
    put = store.put

    async def fail(space: str, values: list[LiveValue]) -> int:
        raise StoreUnreachable("memory:", "planned")

    async with running(a):
        monkeypatch.setattr(store, "put", fail)
        await clock.advance(30.0)
        assert a.members == BOTH
        assert [type(each) for each in facts] == [SymbolsNotRead], "said once"
        monkeypatch.setattr(store, "put", put)
        await clock.advance(1.0)
        assert a.members == BOTH, "b may be about to renew its lease"
        await clock.advance(6.0)
        assert a.members == ALONE


async def test_a_member_that_cannot_be_read_is_ignored(
    store: LiveStore, clock: ManualClock
) -> None:
    await store.put(SPACE, [LiveValue("c", b'{"unknown": 1}', 6000)])
    a = Membership(store, A, clock)
    await a.join()

    assert a.members == ALONE


async def test_after_the_store_was_emptied_nobody_takes_the_others_symbols(
    store: LiveStore, clock: ManualClock
) -> None:
    a, b = Membership(store, A, clock), Membership(store, B, clock)
    await b.join()
    await a.join()
    await b.join()
    async with running(b):
        await clock.advance(1.0)
        async with running(a):
            a.changed.clear()
            await store.remove(SPACE, [A.id, B.id])
            await clock.advance(1.0)  # b has renewed its lease, and does not see a's
            assert b.members == BOTH
            await clock.advance(10.0)
            assert a.members == b.members == BOTH
            assert not a.changed.is_set()
    await store.remove(SPACE, [A.id, B.id])
    async with running(a):
        await clock.advance(2.0)
        assert a.members == BOTH
        await clock.advance(6.0)
        assert a.members == ALONE, "b does not live"
