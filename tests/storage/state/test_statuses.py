"""The statuses of processes, in every kind of store."""

from typing import get_args

from msgspec.structs import replace

from penstock.publish import PublishedCounts
from penstock.runtime.status import (
    GONE_MS,
    ProcessStatus,
    State,
    read_processes,
    remove_outdated,
    write_process,
)
from penstock.storage.state import StateStore, Write
from penstock.storage.state.documents import StoreNow
from penstock.storage.state.schema import PROCESSES

HOUR_MS = 3_600_000
STATUS = ProcessStatus(
    kind="work", name="work-0", host="one", pid=1, folder="/data", started_ms=1, at_ms=2,
    state="running", doing="2 of 8 jobs running", health="impaired", problems=["disk full"],
    published={"zeromq": PublishedCounts(published=3, dropped=1)},
)  # fmt: skip


async def aged(store: StateStore, id_: str, by_ms: int) -> None:
    """Make a status look as if it had been written so long ago."""
    await store.write(PROCESSES, [Write(id_, {}, {"seen_at": StoreNow(-by_ms)})])


async def test_a_status_replaces_the_one_before(store: StateStore) -> None:
    await write_process(store, "x/work-0", replace(STATUS, state="starting", problems=[]))
    await write_process(store, "x/work-0", STATUS)
    await write_process(store, "y/bus", replace(STATUS, kind="bus", name="bus", host="another"))

    found = await read_processes(store)

    assert [(each.id, each.status.host) for each in found] == [
        ("y/bus", "another"),
        ("x/work-0", "one"),
    ]
    assert found[1].status == STATUS
    assert found[1].silent_ms < GONE_MS
    assert not found[1].gone


async def test_who_ran_and_is_silent_is_gone(store: StateStore) -> None:
    for state in get_args(State):
        await write_process(store, state, replace(STATUS, name=state, state=state))
        await aged(store, state, GONE_MS + 1000)

    gone = {each.id for each in await read_processes(store) if each.gone}

    assert gone == {"starting", "running"}


async def test_what_ended_long_ago_is_removed(store: StateStore) -> None:
    ages: dict[State, int] = {
        "stopped": 2 * HOUR_MS, "failed": 2 * HOUR_MS, "running": 25 * HOUR_MS
    }  # fmt: skip
    for state, age_ms in ages.items():
        await write_process(store, state, replace(STATUS, state=state))
        await aged(store, state, age_ms)

    shown = [each.id for each in await read_processes(store)]
    await remove_outdated(store)
    left = [document["id"] for document in await store.find(PROCESSES)]

    assert shown == left == ["failed"]


async def test_a_status_of_a_later_version_is_left_alone(store: StateStore) -> None:
    await write_process(store, "x", STATUS)
    await store.write(PROCESSES, [Write("x", {}, {"status": {"something": "else"}})])

    assert await read_processes(store) == []
    await remove_outdated(store)
    assert await store.get(PROCESSES, "x") is not None
