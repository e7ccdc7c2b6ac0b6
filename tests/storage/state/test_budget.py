"""The rule of budgets: never more than the limit, and the same in every store."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from penstock.storage.state import Backend, StateStore, open_store
from penstock.storage.state.budget import (
    Block,
    Budget,
    LeaseRequest,
    PacedDemand,
    WindowDemand,
    lease,
    whole_block,
)
from penstock.storage.state.mongodb import open_url as open_mongodb
from penstock.storage.state.schema import SCHEMA
from penstock.storage.state.sqlite import SqliteBackend

NOON = 1_700_000_000_000 - 1_700_000_000_000 % 60_000
MINUTE, SECOND = 60_000, 1_000
HOUR = 3_600_000

fresh = count()


class FixedClock:
    """A clock that is told the time; both a clock and a machine's boot clock."""

    def __init__(self) -> None:
        self.at_ms = NOON

    def now_ms(self) -> int:
        return self.at_ms

    def now_ns(self) -> int:
        return self.at_ms * 1_000_000

    def monotonic_ns(self) -> int:
        return 0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)

    def boot_id(self) -> str:
        return "this-boot"

    def since_boot_ns(self) -> int:
        return (self.at_ms - NOON) * 1_000_000

    def wall_ns(self) -> int:
        return NOON * 1_000_000


class Steered(NamedTuple):
    """A store whose clock is set by hand, and the loop it lives in."""

    store: StateStore
    set_clock: Callable[[int], Coroutine[Any, Any, None]]
    runner: asyncio.Runner


@pytest.fixture
def steered(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Steered]:
    with asyncio.Runner() as runner:
        clock = FixedClock()

        async def set_clock(at_ms: int) -> None:
            clock.at_ms = at_ms

        if backend == "postgresql":
            server = request.getfixturevalue("postgresql_url")
            store, set_server_clock, end = runner.run(steered_postgresql(server))
            yield Steered(store, set_server_clock, runner)
            runner.run(end())
            return
        if backend == "memory":
            store = runner.run(open_store("memory:", clock=clock))
        else:
            made: Backend
            if backend == "sqlite":
                made = SqliteBackend(tmp_path / "state.db", clock, 10)
            else:
                server = request.getfixturevalue("mongodb_url")
                made = open_mongodb(f"{server}/steered_{id(clock)}", clock, 10)
            runner.run(made.prepare(SCHEMA))
            store = StateStore(made, 10)
        yield Steered(store, set_clock, runner)
        runner.run(store.close())


async def steered_postgresql(
    server: str,
) -> tuple[
    StateStore, Callable[[int], Coroutine[Any, Any, None]], Callable[[], Coroutine[Any, Any, None]]
]:
    """A store in which the function that reads the server's clock is replaced by a table."""
    connection = await asyncpg.connect(server, server_settings={"search_path": "steered"})
    await connection.execute("DROP SCHEMA IF EXISTS steered CASCADE; CREATE SCHEMA steered")
    store = await open_store(f"{server}{'&' if '?' in server else '?'}search_path=steered")
    await connection.execute(
        "CREATE TABLE clock (at_ms bigint); INSERT INTO clock VALUES (0);"
        " CREATE OR REPLACE FUNCTION penstock_now_ms() RETURNS bigint LANGUAGE sql VOLATILE"
        " AS 'SELECT at_ms FROM clock'"
    )

    async def set_clock(at_ms: int) -> None:
        await connection.execute("UPDATE clock SET at_ms = $1", at_ms)

    async def end() -> None:
        await store.close()
        await connection.execute("DROP SCHEMA steered CASCADE")
        await connection.close()

    return store, set_clock, end


windows = st.builds(
    WindowDemand,
    limit=st.sampled_from(["weight", "raw"]), amount=st.integers(5, 20),
    period_ms=st.just(SECOND), need=st.integers(0, 5), want=st.integers(0, 12),
    seen=st.integers(0, 25),
    seen_in=st.just(-1) | st.integers(-1, 3).map(lambda number: NOON // SECOND + number),
)  # fmt: skip
paces = st.builds(
    PacedDemand,
    limit=st.sampled_from(["calls", "orders"]), amount=st.integers(3, 30),
    period_ms=st.just(SECOND), burst=st.integers(3, 6), need=st.integers(1, 3),
)  # fmt: skip
asks = st.builds(
    LeaseRequest,
    windows=st.lists(windows, max_size=2, unique_by=lambda window: window.limit).map(tuple),
    paces=st.lists(paces, max_size=2, unique_by=lambda pace: pace.limit).map(tuple),
    offset_ms=st.integers(-300, 300) | st.sampled_from([-HOUR, 15_000]),
    opening_ms=st.sampled_from([0, 20]),
    exchange_ms=st.just(0) | st.integers(-2_000, 2_000).map(lambda ms: NOON + ms),
    closing_ms=st.sampled_from([0, 100]),
    blocked_until_ms=st.integers(-500, 500).map(lambda ms: max(0, ms) and NOON + ms),
)  # fmt: skip
# What most asks are, and what stores have a shorter way for.
plain_asks = st.builds(
    LeaseRequest,
    windows=st.tuples(windows.filter(lambda window: window.limit == "weight")),
    offset_ms=st.integers(-300, 300), opening_ms=st.just(20), closing_ms=st.just(100),
)  # fmt: skip
pauses_ms = st.one_of(st.integers(0, 400), st.sampled_from([-HOUR, HOUR, -1_500, 2_000]))
# The exchange's clock is behind: there the window has not ended that has for the store's.
of_the_window_before = LeaseRequest(
    windows=(WindowDemand("raw", 5, 1_000, 0, 0),), exchange_ms=NOON - 1, opening_ms=0, closing_ms=0
)


@settings(
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@example([(0, of_the_window_before)] * 2)
@given(st.lists(st.tuples(pauses_ms, asks | plain_asks), min_size=1, max_size=12))
def test_a_store_leases_exactly_as_the_rule_says(
    steered: Steered, steps: list[tuple[int, LeaseRequest]]
) -> None:
    async def compare() -> None:
        key, at_ms, budget = f"budget-{next(fresh)}", NOON, Budget()
        for pause_ms, ask in steps:
            at_ms += pause_ms
            await steered.set_clock(at_ms)
            grant = await steered.store.lease(key, ask)
            found = await steered.store.budget(key)
            budget, wanted = lease(budget, ask, await steered.store.now_ms(), found.era)
            assert (found, grant) == (budget, wanted)
            assert grant.ok or grant.wait_ms > 0, "a refusal says to come back later, never now"

    steered.runner.run(compare())


@given(
    st.lists(st.tuples(st.integers(0, 900), st.integers(1, 5), st.integers(0, 12)), max_size=60),
    st.integers(-400, 400),
)
def test_no_window_of_the_exchange_sees_more_than_its_limit(
    steps: list[tuple[int, int, int]], offset_ms: int
) -> None:
    now_ms, budget, taken = NOON, Budget(), Counter[int]()
    for pause_ms, need, want in steps:
        now_ms += pause_ms
        window = WindowDemand("weight", 10, SECOND, need=need, want=want)
        before = budget
        budget, grant = lease(budget, LeaseRequest((window,), offset_ms=offset_ms), now_ms)
        if grant.ok:
            assert grant.at_ms == now_ms
            assert grant.blocks[0].window == (now_ms + offset_ms) // SECOND
            assert need <= grant.blocks[0].tokens <= max(need, want)
            taken[grant.blocks[0].window] += grant.blocks[0].tokens
        else:
            assert taken[(now_ms + offset_ms) // SECOND] + need > 10
            assert budget.uses["weight"][1] == before.uses["weight"][1], "refusals spend nothing"
    assert all(total <= 10 for total in taken.values())


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 4)), max_size=80))
def test_no_period_of_a_paced_limit_sees_more_than_its_amount_and_burst(
    steps: list[tuple[int, int]],
) -> None:
    now_ms, budget, sent = NOON, Budget(), list[tuple[int, int]]()
    for pause_ms, need in steps:
        now_ms += pause_ms
        ask = LeaseRequest(paces=(PacedDemand("calls", 7, SECOND, burst=4, need=need),))
        budget, grant = lease(budget, ask, now_ms)
        assert grant.wait_ms <= SECOND or not grant.ok
        if grant.ok:
            assert not sent or grant.at_ms >= sent[-1][0], "first come, first sent"
            sent.append((grant.at_ms, need))
    for begins_ms, _ in sent:
        inside = [cost for at_ms, cost in sent if begins_ms <= at_ms < begins_ms + SECOND]
        assert sum(inside) <= 7 + 4


def test_all_limits_are_charged_or_none() -> None:
    ample, tight = (
        WindowDemand("ample", 100, MINUTE, need=5),
        WindowDemand("tight", 5, MINUTE, need=5),
    )
    budget, first = lease(Budget(), LeaseRequest((ample, tight)), NOON)

    after, second = lease(
        budget, LeaseRequest((ample, tight), (PacedDemand("calls", 9, SECOND, 9),)), NOON + 1
    )

    assert first.ok
    assert not second.ok
    assert after.uses["ample"] == budget.uses["ample"]
    assert after.uses["calls"] == ((NOON + 1) * 1000, 0)
    assert after.refused == 1


def test_a_window_that_is_used_up_grants_nothing_more() -> None:
    budget, _ = lease(Budget(), LeaseRequest((WindowDemand("weight", 10, MINUTE, need=10),)), NOON)

    _, grant = lease(budget, LeaseRequest((WindowDemand("weight", 10, MINUTE, need=1),)), NOON + 1)

    assert (grant.ok, grant.at_ms) == (False, NOON + MINUTE)


def test_nothing_is_sent_where_it_might_arrive_in_the_next_window() -> None:
    def ask(at_ms: int, pace: PacedDemand | None = None) -> tuple[bool, int]:
        window = WindowDemand("weight", 10, SECOND)
        asked = LeaseRequest((window,), (pace,) if pace else (), opening_ms=50, closing_ms=200)
        _, grant = lease(spoken, asked, at_ms)
        return grant.ok, grant.at_ms

    spoken = Budget(uses={"calls": ((NOON + 820) * 1000, 0)})
    assert ask(NOON + 20) == (False, NOON + 50)
    assert ask(NOON + 799) == (True, NOON + 799)
    assert ask(NOON + 800) == (False, NOON + 1_050)
    assert ask(NOON + 700, PacedDemand("calls", 10, SECOND, burst=1)) == (False, NOON + 1_050)


def test_what_the_exchange_counted_is_believed() -> None:
    index = NOON // MINUTE
    told = LeaseRequest((WindowDemand("weight", 10, MINUTE, need=0, seen=8, seen_in=index),))
    stale = LeaseRequest((WindowDemand("weight", 10, MINUTE, need=0, seen=10, seen_in=index - 1),))

    budget, _ = lease(Budget(), told, NOON)
    budget, _ = lease(budget, stale, NOON)
    budget, grant = lease(budget, LeaseRequest((WindowDemand("weight", 10, MINUTE, want=5),)), NOON)

    assert grant.blocks == (Block(index, 2),)
    assert budget.uses["weight"][:2] == (index, 10)


def test_a_store_that_may_have_forgotten_lets_nothing_through_for_a_while() -> None:
    ask = LeaseRequest(
        (WindowDemand("weight", 10, MINUTE),), (PacedDemand("calls", 10, SECOND, burst=5),)
    )
    budget, first = lease(Budget(), ask, NOON, "before")

    budget, second = lease(budget, ask, NOON + 1, "after")
    budget, third = lease(budget, ask, NOON + MINUTE, "after")

    assert (first.ok, second.ok, third.ok) == (True, False, True)
    assert second.at_ms == NOON + MINUTE


def test_what_is_asked_for_only_later_counts_as_taken_too_where_it_may_have_been_forgotten() -> (
    None
):
    weight, raw = (LeaseRequest((WindowDemand(name, 10, MINUTE),)) for name in ("weight", "raw"))
    paced = LeaseRequest(paces=(PacedDemand("calls", 10, SECOND, burst=5),))
    budget, _ = lease(Budget(), raw, NOON, "before")
    budget, _ = lease(budget, weight, NOON + 1, "after")

    budget, refused = lease(budget, raw, NOON + 2, "after")
    budget, later = lease(budget, raw, NOON + MINUTE, "after")
    _, far = lease(budget, paced, NOON + MINUTE, "after")

    assert (refused.ok, later.ok) == (False, True)
    assert far.wait_ms > 0


@given(asks.filter(lambda ask: len(ask.windows) == 1), st.integers(0, 25), st.integers(-999, 2_000))
def test_a_whole_block_is_what_the_rule_grants(ask: LeaseRequest, used: int, after_ms: int) -> None:
    ask = msgspec.structs.replace(ask, paces=(), blocked_until_ms=0)
    use, now_ms = (NOON // SECOND, used, 0, NOON + SECOND, 0, 0, 0), NOON + after_ms
    window = ask.windows[0]
    before = Budget(uses={window.limit: use})

    block = whole_block(ask, use, now_ms)

    after, granted = lease(before, ask, now_ms)
    whole = granted.ok and granted.blocks[0].tokens == max(window.need, window.want)
    if block:
        assert (block, after.uses) == (
            granted,
            {window.limit: (use[0], used + granted.blocks[0].tokens, *use[2:])},
        )
    elif whole:
        ahead_ms = ask.exchange_ms - now_ms if ask.exchange_ms else ask.offset_ms
        is_another = abs(ahead_ms) > SECOND // 2
        ends_later = window.seen_in == use[0] and -ahead_ms > ask.opening_ms
        is_other = is_another or ends_later
        assert granted.blocks[0].window != use[0] or window.seen > used or is_other


@pytest.mark.parametrize("step_ms", [-HOUR, -2 * MINUTE, -61_000])
def test_a_clock_that_went_back_neither_makes_room_nor_blocks_for_long(step_ms: int) -> None:
    ask = LeaseRequest(
        (WindowDemand("weight", 10, MINUTE, need=10),), (PacedDemand("calls", 60, MINUTE, burst=5),)
    )
    budget, _ = lease(Budget(), ask, NOON)

    budget, refused = lease(budget, ask, NOON + step_ms)
    _, granted = lease(budget, ask, refused.at_ms)

    assert not refused.ok
    assert refused.wait_ms <= MINUTE
    assert granted.ok
