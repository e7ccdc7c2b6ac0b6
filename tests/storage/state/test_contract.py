"""What every state store promises, whatever it is kept in."""

import asyncio
from itertools import chain
from typing import Any

import pytest

from penstock.errors import AlreadyExists, ConfigError, CostExceedsLimit
from penstock.storage.state import StateStore, open_store
from penstock.storage.state.budget import LeaseRequest, PacedDemand, WindowDemand
from penstock.storage.state.documents import (
    Add,
    Claim,
    Condition,
    Document,
    StoreNow,
    Write,
    patched,
)
from penstock.storage.state.schema import CONNECTORS, JOBS

DUE = (Condition("state", "in", ("idle", "queued")), Condition("next_run_at", "<=", StoreNow()))
EXPIRED = (Condition("state", "=", "running"), Condition("lock.lock_until", "<=", StoreNow()))
ACTIVE = Condition("status", "=", "active")
BY_PRIORITY = ("priority", "next_run_at")
LEASE_MS = 60_000


def job(name: str, **fields: Any) -> Document:
    return {
        "id": name, "exchange_id": "sim", "type": "backfill", "symbol": name, "timeframe": "1m",
        "status": "active", "state": "idle", "next_run_at": 0, "priority": 50, "fence": 0,
        "cursor": {"since_ms": 0}, "lock": {"locked_by": None, "lock_until": None},
        "target": {}, "target_key": fields.get("symbol", name), **fields,
    }  # fmt: skip


def claim(who: str = "me", most: int = 1, lease_ms: int = LEASE_MS) -> Claim:
    return Claim(
        query=[[ACTIVE, *DUE], [ACTIVE, *EXPIRED]],
        order=BY_PRIORITY,
        patch={
            "state": "running", "fence": Add(1),
            "lock.locked_by": who, "lock.lock_until": StoreNow(lease_ms),
        },
        most=most,
    )  # fmt: skip


async def add(store: StateStore, *documents: Document) -> None:
    for document in documents:
        assert (await store.insert_if_absent(JOBS, document)).created


def ids(documents: list[Document]) -> list[str]:
    return [document["id"] for document in documents]


async def test_a_document_comes_back_as_it_was_put(store: StateStore) -> None:
    odd = job(
        "a", text='é "quoted" \\ \n 表', number=2**53, none=None, empty={},
        list=[1, None, {"x": []}], half=0.5, truth=True, negative=-1,
    )  # fmt: skip

    inserted = await store.insert_if_absent(JOBS, odd)

    assert inserted.created
    assert inserted.document == {**odd, "version": 1} == await store.get(JOBS, "a")
    assert await store.get(JOBS, "b") is None
    assert await store.get(CONNECTORS, "a") is None


async def test_the_first_of_equal_documents_stays(store: StateStore) -> None:
    first = {"id": "1", "exchange_id": "sim", "status": "active"}
    await store.insert_if_absent(CONNECTORS, first)

    same_key = await store.insert_if_absent(CONNECTORS, {"id": "2", "exchange_id": "sim"})
    same_id = await store.insert_if_absent(CONNECTORS, {"id": "1", "exchange_id": "other"})
    other = await store.insert_if_absent(CONNECTORS, {"id": "3", "exchange_id": "other"})

    assert not same_key.created
    assert not same_id.created
    assert same_key.document == same_id.document == {**first, "version": 1}
    assert other.created


async def test_fifty_at_once_make_one_document(store: StateStore) -> None:
    made = await asyncio.gather(
        *(
            store.insert_if_absent(CONNECTORS, {"id": str(n), "exchange_id": "sim"})
            for n in range(50)
        )
    )

    assert sum(one.created for one in made) == 1
    assert len({one.document["id"] for one in made}) == 1
    assert len(await store.find(CONNECTORS)) == 1


async def test_only_live_jobs_are_kept_apart(store: StateStore) -> None:
    await add(store, job("1", symbol="btc", status="deleted"), job("2", symbol="btc"))
    await add(store, job("3", symbol=None), job("4", symbol=""), job("5", symbol="eth"))

    paused = await store.insert_if_absent(JOBS, job("6", symbol="btc", status="paused"))
    deleted = await store.insert_if_absent(JOBS, job("7", symbol="btc", status="deleted"))
    nothing = await store.insert_if_absent(JOBS, job("8", symbol=None))

    assert (paused.created, paused.document["id"]) == (False, "2")
    assert deleted.created
    assert (nothing.created, nothing.document["id"]) == (False, "3")


async def test_an_update_that_would_make_a_twin_names_the_other(store: StateStore) -> None:
    await add(store, job("1", symbol="btc", status="deleted"), job("2", symbol="btc"))

    with pytest.raises(AlreadyExists) as refusal:
        await store.update(JOBS, "1", lambda found: {**found, "status": "active"})

    assert refusal.value.existing_id == "2"
    kept = await store.get(JOBS, "1")
    assert kept is not None
    assert (kept["status"], kept["version"]) == ("deleted", 1)
    await store.update(JOBS, "2", lambda found: {**found, "status": "deleted"})
    raised = await store.update(JOBS, "1", lambda found: {**found, "status": "active"})
    assert raised is not None
    assert (raised["status"], raised["version"]) == ("active", 2)


async def test_an_update_changes_what_is_there_or_nothing(store: StateStore) -> None:
    await add(store, job("a", priority=1))

    changed = await store.update(JOBS, "a", lambda found: {**found, "priority": 2, "id": "other"})

    assert changed == {**job("a", priority=2), "version": 2} == await store.get(JOBS, "a")
    assert await store.update(JOBS, "a", lambda _: None) is None
    assert await store.update(JOBS, "nobody", lambda found: found) is None
    assert await store.get(JOBS, "a") == changed


async def test_no_update_is_lost_between_many(store: StateStore) -> None:
    await add(store, job("a", priority=0))

    await asyncio.gather(
        *(
            store.update(JOBS, "a", lambda found: {**found, "priority": found["priority"] + 1})
            for _ in range(20)
        )
    )

    found = await store.get(JOBS, "a")
    assert found is not None
    assert (found["priority"], found["version"]) == (20, 21)


async def test_a_claim_takes_the_first_that_is_due(store: StateStore) -> None:
    later = await store.now_ms() + 3_600_000
    await add(
        store, job("late", next_run_at=later, priority=1), job("b", next_run_at=5, priority=9),
        job("c", next_run_at=3, priority=9), job("first", next_run_at=9, priority=2),
        job("paused", status="paused", priority=0), job("done", state="success", priority=0),
    )  # fmt: skip
    before_ms = await store.now_ms()

    (first,) = await store.claim(JOBS, claim("me"))
    rest = await store.claim(JOBS, claim("me", most=10))

    assert first["id"] == "first"
    assert (first["state"], first["fence"], first["version"]) == ("running", 1, 2)
    assert first["lock"]["locked_by"] == "me"
    assert before_ms + LEASE_MS <= first["lock"]["lock_until"] <= await store.now_ms() + LEASE_MS
    assert await store.get(JOBS, "first") == first
    assert ids(rest) == ["c", "b"]
    assert await store.claim(JOBS, claim("other")) == []


async def test_an_expired_lease_is_claimed_again_and_fences_the_old_holder_off(
    store: StateStore,
) -> None:
    await add(store, job("a"))
    (slow,) = await store.claim(JOBS, claim("slow", lease_ms=-1))

    (quick,) = await store.claim(JOBS, claim("quick"))
    late = Write("a", {"fence": slow["fence"]}, {"cursor": {"since_ms": 1}})
    good = Write("a", {"fence": quick["fence"]}, {"cursor": {"since_ms": 2}})

    assert (slow["fence"], quick["fence"], quick["lock"]["locked_by"]) == (1, 2, "quick")
    assert await store.write(JOBS, [late]) == [None]
    (written,) = await store.write(JOBS, [good])
    assert written is not None
    assert written["cursor"] == {"since_ms": 2}
    assert written == await store.get(JOBS, "a")
    assert not await store.delete(JOBS, "a", {"fence": 1})
    assert await store.delete(JOBS, "a", {"fence": 2})
    assert not await store.delete(JOBS, "a")


async def test_a_heartbeat_renews_saves_and_tells_of_a_pause_at_once(store: StateStore) -> None:
    await add(store, job("a"), job("b"), job("c"))
    mine = await store.claim(JOBS, claim("me", most=3))
    await store.update(JOBS, "b", lambda found: {**found, "status": "paused"})
    beat = {"lock.lock_until": StoreNow(2 * LEASE_MS), "stats.beats": Add(1), "cursor.page": 7}

    beaten = await store.write(
        JOBS, [Write(one["id"], {"fence": 9 if one["id"] == "c" else 1}, beat) for one in mine]
    )

    assert beaten[2] is None
    known = [one for one in beaten if one]
    assert [one["status"] for one in known] == ["active", "paused"]
    assert all(one["cursor"] == {"since_ms": 0, "page": 7} for one in known)
    assert all(one["stats"] == {"beats": 1} for one in known)
    assert known[0]["lock"]["locked_by"] == "me"
    assert known[0]["lock"]["lock_until"] > mine[0]["lock"]["lock_until"]


@pytest.mark.parametrize(
    "patch",
    [
        {"state": "queued", "cursor": None, "new": {"deep": [1, {}]}},
        {"count": Add(2), "fence": Add(-1), "none": Add(1), "cursor.since_ms": Add(5)},
        {"lock.lock_until": StoreNow(7), "at": StoreNow(-7), "fresh.at": StoreNow()},
        {"it's": 1, 'a "quoted" \\ name': {"it's": None}, "o'clock.o'clock": StoreNow()},
        {},
    ],
    ids=str,
)
async def test_a_patch_does_what_it_says_whatever_else_is_written_with_it(
    store: StateStore, patch: dict[str, Any]
) -> None:
    await check_patch(store, patch)


# MongoDB refuses to reach into a text, or into what it sets at the same time.
@pytest.mark.parametrize("backend", ["memory", "sqlite", "postgresql"], indirect=True)
@pytest.mark.parametrize(
    "patch",
    [
        {"cursor.since_ms": 1, "cursor.a.b": "x", "state.was": "text", "lock.lock_until": Add(1)},
        {
            "cursor": {"page": 3, "a": 1},
            "cursor.page": Add(1),
            "cursor.at": StoreNow(),
            "n": Add(1),
        },
    ],
    ids=str,
)
async def test_a_patch_reaches_into_what_was_no_object_and_into_what_it_sets(
    store: StateStore, patch: dict[str, Any]
) -> None:
    await check_patch(store, patch)


async def check_patch(store: StateStore, patch: dict[str, Any]) -> None:
    before = job("b", none=None, fence=3)
    await add(store, job("a"), before, job("c"))
    others = [Write("c", {"priority": 50}, {"priority": 1}), Write("a", {}, {"lock.x": Add(1)})]

    first_ms = await store.now_ms()
    _, written, _ = await store.write(JOBS, [others[0], Write("b", {"fence": 3}, patch), others[1]])
    last_ms = await store.now_ms()

    assert written == await store.get(JOBS, "b")
    assert written in [
        {**patched(before, patch, at_ms), "version": 2} for at_ms in range(first_ms, last_ms + 1)
    ]


async def test_each_job_goes_to_one_of_many_claimers(store: StateStore) -> None:
    await add(store, *(job(str(n)) for n in range(30)))

    async def work(who: str) -> list[str]:
        mine: list[str] = []
        while got := await store.claim(JOBS, claim(who, most=2)):
            mine += ids(got)
        return mine

    taken = await asyncio.gather(*(work(str(n)) for n in range(6)))

    assert sorted(chain(*taken)) == sorted(str(n) for n in range(30))


async def test_documents_are_found_in_order_page_by_page(store: StateStore) -> None:
    runs = [3, None, 1, 2, None, 3, 1]
    await add(store, *(job(f"{n}", next_run_at=run) for n, run in enumerate(runs)))
    await add(store, job("x", exchange_id="other"), job("É", priority=1), job("Z", priority=1))
    asked = [[Condition("exchange_id", "=", "sim"), Condition("priority", "not in", ())]]

    pages, after = [], None
    while page := await store.find(JOBS, asked, ("next_run_at",), limit=2, after=after):
        pages.append(ids(page))
        after = page[-1]

    assert list(chain(*pages)) == ["1", "4", "Z", "É", "2", "6", "3", "0", "5"]
    assert [len(page) for page in pages] == [2, 2, 2, 2, 1]
    assert ids(await store.find(JOBS, limit=3)) == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ([[Condition("symbol", "=", None)]], ["none"]),
        ([[Condition("symbol", ">", None)]], ["a", "b", "c"]),
        ([[Condition("symbol", ">", "b")]], ["c"]),
        ([[Condition("symbol", "in", ("a", "c"))]], ["a", "c"]),
        ([[Condition("symbol", "in", ())]], []),
        ([[Condition("symbol", "not in", ("a", "c"))]], ["b", "none"]),
        ([[Condition("next_run_at", "<=", 2)]], ["a", "b"]),
        (
            [[Condition("next_run_at", "<=", StoreNow())], [Condition("id", "=", "c")]],
            ["a", "b", "c"],
        ),
        ([[Condition("symbol", "=", "a"), Condition("next_run_at", "<=", 0)]], []),
        ([[]], ["a", "b", "c", "none"]),
    ],
    ids=str,
)
async def test_a_query_finds_what_it_says(
    store: StateStore, query: list[list[Condition]], found: list[str]
) -> None:
    await add(
        store, job("a", next_run_at=1), job("b", next_run_at=2), job("c", next_run_at=2**52),
        job("none", symbol=None, next_run_at=None),
    )  # fmt: skip

    assert ids(await store.find(JOBS, query)) == found


async def test_what_nobody_declared_is_refused(store: StateStore) -> None:
    with pytest.raises(ValueError, match="'colour'"):
        await store.find(JOBS, [[Condition("colour", "=", "red")]])
    with pytest.raises(ValueError, match="'colour'"):
        await store.find(JOBS, order=("colour",))
    with pytest.raises(ValueError, match="status can only change by update"):
        await store.write(JOBS, [Write("a", {}, {"status": "deleted"})])
    with pytest.raises(ValueError, match="once at a time"):
        await store.write(JOBS, [Write("a", {}, {"state": "idle"})] * 2)


async def test_leases_are_counted_and_refusals_say_when_to_come_back(store: StateStore) -> None:
    hour = 3_600_000
    window = WindowDemand("weight", 10, hour, need=4, want=6)

    grants = [await store.lease("sim", LeaseRequest((window,))) for _ in range(3)]

    first, second, third = grants
    assert first.ok
    assert second.ok
    assert [block.tokens for grant in (first, second) for block in grant.blocks] == [6, 4]
    assert not third.ok
    assert 0 < third.wait_ms <= hour
    assert third.at_ms % hour == 0
    budget = await store.budget("sim")
    assert budget.uses["weight"][:2] == (first.blocks[0].window, 10)
    assert budget.refused == 1
    assert (await store.lease("other", LeaseRequest((window,)))).ok
    with pytest.raises(CostExceedsLimit):
        await store.lease("sim", LeaseRequest((WindowDemand("weight", 10, hour, need=11),)))
    with pytest.raises(CostExceedsLimit):
        await store.lease(
            "sim", LeaseRequest(paces=(PacedDemand("calls", 10, 1000, burst=2, need=3),))
        )


async def test_many_who_lease_at_once_get_no_more_than_there_is(store: StateStore) -> None:
    ask = LeaseRequest((WindowDemand("weight", 5, 3_600_000),))
    await store.lease("sim", LeaseRequest())

    grants = await asyncio.gather(*(store.lease("sim", ask) for _ in range(10)))

    assert sum(grant.ok for grant in grants) == 5


async def test_a_block_stops_everybody_at_once(store: StateStore) -> None:
    until_ms = await store.now_ms() + 30_000
    window = LeaseRequest((WindowDemand("weight", 10, 3_600_000),))
    open_before = [(await store.lease("sim", window)).ok for _ in range(2)]
    await store.lease("sim", LeaseRequest(blocked_until_ms=until_ms))

    paced = await store.lease("sim", LeaseRequest(paces=(PacedDemand("calls", 10, 1000, burst=1),)))
    refused = await store.lease("sim", window)

    assert open_before == [True, True]
    assert (paced.ok, paced.at_ms) == (refused.ok, refused.at_ms) == (False, until_ms)
    assert (await store.budget("sim")).blocked_until_ms == until_ms


async def test_a_block_can_be_lifted_and_what_was_used_stays_used(store: StateStore) -> None:
    until_ms = await store.now_ms() + 3_600_000
    window = LeaseRequest((WindowDemand("weight", 10, 86_400_000, need=4),))
    assert (await store.lease("sim", window)).ok
    await store.lease("sim", LeaseRequest(blocked_until_ms=until_ms))

    assert not await store.unblock("sim", until_ms + 1), "another block"
    assert not await store.unblock("nobody", until_ms)
    assert not (await store.lease("sim", window)).ok
    assert await store.unblock("sim", until_ms)
    assert not await store.unblock("sim", 0)
    assert (await store.budget("sim")).blocked_until_ms == 0
    assert (await store.lease("sim", window)).ok
    assert (await store.budget("sim")).uses["weight"][1] == 8
    await store.lease("sim", LeaseRequest(blocked_until_ms=until_ms - 1))
    assert not (await store.lease("sim", window)).ok, "a later block holds, though it is shorter"


@pytest.mark.parametrize("backend", ["sqlite", "postgresql", "mongodb"], indirect=True)
async def test_what_is_kept_outlives_whoever_opened_it(store: StateStore, url: str) -> None:
    await add(store, job("a"))
    await store.lease("sim", LeaseRequest((WindowDemand("weight", 10, 3_600_000, need=10),)))

    again = await open_store(url)

    assert await again.get(JOBS, "a") == await store.get(JOBS, "a")
    assert await again.budget("sim") == await store.budget("sim")
    assert abs(await again.now_ms() - await store.now_ms()) < 30_000
    await again.close()


@pytest.mark.parametrize(
    "url",
    ["", "sqlite", "nowhere:x", "schema:x", "memory:x", "sqlite:", "mongodb://", "mongodb:/%"],
)
async def test_a_url_of_no_store_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        await open_store(url)


async def test_the_refusal_names_every_kind_of_store_and_nothing_else() -> None:
    kinds = "begins with sqlite: or postgresql: or mongodb: or memory:."
    with pytest.raises(ConfigError, match=kinds):
        await open_store("nowhere:x")
