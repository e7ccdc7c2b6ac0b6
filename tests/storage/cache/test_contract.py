"""Every store of live values: newest wins, values expire, changes are delivered."""

import asyncio
import subprocess
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.forked import python
from tests.waiting import PATIENCE_S

from penstock.clock import ManualClock
from penstock.errors import StoreUnreachable
from penstock.storage.cache import LiveStore, LiveValue, open_live_store, replaces
from penstock.storage.cache.values import MAX_NUMBER, Order

TTL = 300_000
shared = pytest.mark.parametrize("live_backend", ["sqlite", "redis"], indirect=True)


def value(
    key: str = "a", text: str = "x", *, age: int = 0, line: str = "u", number: int = 1
) -> LiveValue:
    return LiveValue(key, msgspec.json.encode(text), TTL, age, line, number)


async def text_of(store: LiveStore, key: str = "a") -> str | None:
    found = await store.get("ticks", key)
    return None if found is None else msgspec.json.decode(found.value, type=str)


async def test_a_value_is_read_as_it_was_written(store: LiveStore) -> None:
    written = LiveValue("sim:A\"é'/B", b'{"bid":"1.50","deep":[1,null]}', TTL, 1000, "t", 7)

    assert await store.put("ticks", [written]) == 1

    found = await store.get("ticks", written.key)
    assert found is not None
    assert found.key == written.key
    assert found.value == written.value
    assert (found.ttl_ms, found.line, found.number) == (TTL, "t", 7)
    assert 1000 <= found.age_ms < 1000 + PATIENCE_S * 1000


async def test_what_is_not_there_is_none(store: LiveStore) -> None:
    assert await store.get("ticks", "a") is None
    assert await store.find("ticks") == []
    await store.put("ticks", [value()])
    assert await store.get("processes", "a") is None, "spaces are apart"


async def test_a_batch_of_any_size_is_written_and_found(store: LiveStore) -> None:
    batch = [value(f"k{n:04}", str(n)) for n in range(1000)]

    assert await store.put("ticks", batch) == 1000
    assert await store.put("ticks", []) == 0

    found = await store.find("ticks")
    assert [(each.key, each.value) for each in found] == [(each.key, each.value) for each in batch]


async def test_many_values_are_read_in_the_order_of_their_keys(store: LiveStore) -> None:
    await store.put("ticks", [value(f"k{n:04}", str(n)) for n in range(600)])
    asked = [f"k{n:04}" for n in range(700, 0, -1)]

    found = await store.get_many("ticks", asked)

    assert [each and each.key for each in found] == [None] * 101 + asked[101:]
    assert await store.get_many("ticks", []) == []


async def test_a_new_store_can_be_opened_many_times_at_once(url: str) -> None:
    stores = await asyncio.gather(*(open_live_store(url, timeout_s=30) for _ in range(8)))
    for each in stores:
        await each.close()


async def test_an_older_value_replaces_nothing(store: LiveStore) -> None:
    await store.put("ticks", [value(text="new", number=10)])

    assert await store.put("ticks", [value(text="old", number=9)]) == 0
    assert await text_of(store) == "new"
    assert await store.put("ticks", [value(text="same number", number=10)]) == 1
    assert await store.put("ticks", [value(text="newer", number=11, age=60_000)]) == 1
    assert await text_of(store) == "newer", "within a line the age does not matter"


async def test_numbers_are_compared_to_the_last_digit(store: LiveStore) -> None:
    await store.put("ticks", [value(text="new", number=MAX_NUMBER - 1)])

    assert await store.put("ticks", [value(text="old", number=MAX_NUMBER - 2)]) == 0
    assert await store.put("ticks", [value(text="short", number=999)]) == 0
    assert await store.put("ticks", [value(text="newest", number=MAX_NUMBER)]) == 1


async def test_between_lines_the_time_decides(store: LiveStore) -> None:
    await store.put("ticks", [value(text="id", line="u", number=5, age=10_000)])

    assert await store.put("ticks", [value(text="t", line="t", number=1, age=20_000)]) == 0
    assert await store.put("ticks", [value(text="t", line="t", number=1, age=5_000)]) == 1
    assert await store.put("ticks", [value(text="none", line="", age=50_000, number=9)]) == 0
    assert await store.put("ticks", [value(text="none", line="", age=0, number=0)]) == 1
    assert await text_of(store) == "none"


async def test_within_a_batch_the_newest_wins_too(store: LiveStore) -> None:
    batch = [value(text=str(number), number=number) for number in (1, 3, 2)]

    assert await store.put("ticks", batch) == 2
    assert await text_of(store) == "3"


async def gone(store: LiveStore) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await store.get("ticks", "a") is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_value_expires_when_it_is_as_old_as_its_ttl(store: LiveStore) -> None:
    begun = time.monotonic()
    await store.put("ticks", [value(age=TTL - 200)])
    await gone(store)

    assert time.monotonic() - begun >= 0.19
    assert await store.find("ticks") == []
    assert await store.put("ticks", [value(text="old number", number=0)]) == 1, "nothing is there"


async def test_what_has_expired_already_is_not_written(store: LiveStore) -> None:
    assert await store.put("ticks", [value(age=TTL), value("b", age=2 * TTL)]) == 0
    assert await store.find("ticks") == []


async def test_a_removed_value_is_gone(store: LiveStore) -> None:
    await store.put("ticks", [value("a"), value("b")])

    await store.remove("ticks", ["a", "never there"])
    await store.remove("ticks", [])

    assert [each.key for each in await store.find("ticks")] == ["b"]
    assert await store.put("ticks", [value("a", number=0)]) == 1


async def test_a_number_that_no_store_can_hold_is_refused(store: LiveStore) -> None:
    for number in (-1, MAX_NUMBER + 1):
        with pytest.raises(ValueError, match="is no number"):
            await store.put("ticks", [value(number=number)])
    for odd in (value(age=-1), value(line="1")):
        with pytest.raises(ValueError, match="letters only"):
            await store.put("ticks", [odd])


async def test_the_stores_time_goes_on(store: LiveStore) -> None:
    before = await store.now_ms()
    async with asyncio.timeout(PATIENCE_S):
        while await store.now_ms() == before:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert await store.now_ms() > before


async def test_a_subscription_begins_with_the_present_and_goes_on_with_changes(
    store: LiveStore,
) -> None:
    await store.put("ticks", [value("a"), value("b")])
    async with asyncio.timeout(PATIENCE_S), store.changes("ticks") as changes:
        assert {each.key for each in await changes.next_batch()} == {"a", "b"}

        await store.put("ticks", [value("b", "changed", number=2), value("c")])
        await store.put("processes", [value("d")])
        seen = dict[str, bytes]()
        while {*seen} < {"b", "c"}:
            seen |= {each.key: each.value for each in await changes.next_batch()}

        assert seen == {"b": b'"changed"', "c": b'"x"'}
        async with store.changes("ticks") as second:
            assert {each.key for each in await second.next_batch()} == {"a", "b", "c"}


async def test_a_slow_subscriber_gets_the_newest_and_nothing_older(store: LiveStore) -> None:
    async with asyncio.timeout(PATIENCE_S), store.changes("ticks") as changes:
        for number in range(1, 200):
            await store.put("ticks", [value(text=str(number), number=number)])
        await store.put("ticks", [value(text="old", number=3)])
        last = 0
        while last < 199:
            for each in await changes.next_batch():
                assert each.number > last
                last = each.number


async def test_a_closed_store_ends_its_subscriptions(url: str) -> None:
    store = await open_live_store(url, timeout_s=30)
    async with asyncio.timeout(PATIENCE_S), store.changes("ticks") as changes:
        waiting = asyncio.create_task(changes.next_batch())
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(StoreUnreachable, match="was closed"):
            await waiting
    assert asyncio.all_tasks() == {asyncio.current_task()}


WRITES = """
import asyncio, sys
from penstock.storage.cache import LiveValue, open_live_store

async def main(url, first):
    store = await open_live_store(url, timeout_s=60)
    print("open", flush=True)
    for number in range(first, 300, 3):
        values = [LiveValue(key, b"%d" % number, 300_000, 0, "u", number) for key in "abc"]
        await store.put("ticks", values)
    if first == 0:  # this one is killed while it writes what is old
        while True:
            await store.put("ticks", [LiveValue("a", b"0", 300_000, 0, "u", 0)])
    await store.close()

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@shared
async def test_processes_that_write_at_once_and_die_leave_the_newest(url: str) -> None:
    writers = [python("-c", WRITES, url, str(first), stdout=subprocess.PIPE) for first in range(3)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
    for writer in writers[1:]:
        writer.communicate(timeout=PATIENCE_S)
    writers[0].kill()
    writers[0].communicate()
    assert [writer.returncode for writer in writers[1:]] == [0, 0]

    store = await open_live_store(url, timeout_s=30)
    assert [each.value for each in await store.find("ticks")] == [b"299"] * 3
    assert await store.put("ticks", [value("a", number=300)]) == 1
    await store.close()


@shared
async def test_processes_see_each_others_values_and_changes(url: str) -> None:
    one, other = await open_live_store(url, timeout_s=30), await open_live_store(url, timeout_s=30)
    async with asyncio.timeout(PATIENCE_S), one.changes("ticks") as changes:
        await other.put("ticks", [value(number=5)])
        [seen] = await changes.next_batch()
        assert seen.number == 5
        assert await one.put("ticks", [value(number=4)]) == 0
        assert await text_of(one) == "x"
    await one.close()
    await other.close()


@shared
async def test_writers_at_once_leave_the_newest(url: str) -> None:
    stores = [await open_live_store(url, timeout_s=60) for _ in range(4)]

    async def write(store: LiveStore, first: int) -> None:
        for number in range(first, 100, 4):
            await store.put("ticks", [value(key, str(number), number=number) for key in "abc"])

    await asyncio.gather(*(write(store, first) for first, store in enumerate(stores)))

    assert [each.value for each in await stores[0].find("ticks")] == [b'"99"'] * 3
    for store in stores:
        await store.close()


orders = st.builds(Order, st.sampled_from(["", "u", "t"]), st.integers(0, 3), st.integers(0, 3))


@given(orders, orders)
def test_of_two_values_one_replaces_the_other(one: Order, other: Order) -> None:
    assert replaces(one, other) or replaces(other, one)
    assert replaces(one, one)


@given(st.permutations(range(6)))
def test_within_a_line_the_greatest_number_is_left_in_any_order(numbers: list[int]) -> None:
    clock = ManualClock()

    async def left() -> bytes:
        store = await open_live_store("memory:", clock=clock)
        for number in numbers:
            await store.put("ticks", [value(text=str(number), number=number)])
        [found] = await store.find("ticks")
        return found.value

    assert asyncio.run(left()) == b'"5"'


steps = st.lists(
    st.tuples(
        st.integers(0, 400),  # the time that passes before it, in seconds
        st.integers(0, 400_000),  # its age when it is written
        st.integers(0, 9),
    ),
    max_size=20,
)


@given(steps)
async def test_no_value_is_served_past_its_ttl_nor_an_older_one(
    steps: list[tuple[int, int, int]],
) -> None:
    clock = ManualClock()
    store = await open_live_store("memory:", clock=clock)
    kept: tuple[int, int] | None = None  # when it was received, and its number
    for pause_s, age_ms, number in steps:
        await clock.advance(pause_s)
        now_ms = clock.now_ms()
        if kept is not None and now_ms - kept[0] >= TTL:
            kept = None
        if age_ms < TTL and (kept is None or number >= kept[1]):
            kept = now_ms - age_ms, number
        await store.put("ticks", [value(age=age_ms, number=number)])

        found = await store.get("ticks", "a")

        assert (found is None) == (kept is None)
        if found is not None and kept is not None:
            assert (found.age_ms, found.number) == (now_ms - kept[0], kept[1])
    await store.close()
