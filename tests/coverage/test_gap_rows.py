"""Gaps in every kind of store: opened, merged, split, filled and declared unfillable."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.coverage.gap_rows import GapRows
from penstock.coverage.model import GapRow, as_document
from penstock.errors import StoreUnreachable
from penstock.storage.log.keys import Stream
from penstock.storage.state import Document, Inserted, StateStore, open_store
from penstock.storage.state.schema import GAPS, Table

TRADES = Stream("binance", "trades", "btc_usdt")


def gap(first: int, last: int, cause: str = "disconnected", **other: Any) -> GapRow:
    return GapRow(**TRADES._asdict(), by="id", first=first, last=last, cause=cause, **other)


async def shown(rows: GapRows) -> list[tuple[int, int, str, str]]:
    return [(row.first, row.last, row.state, row.cause) for row in await rows.find()]


async def test_a_gap_is_found_as_it_was_opened(store: StateStore) -> None:
    rows, opened = GapRows(store), gap(5, 9, reason="code 1006", origin="ours", log_id=1 << 62)

    await rows.open(opened)

    assert await rows.find() == await rows.find(exchange="binance", state="open") == [opened]
    assert await rows.find(symbol="eth_usdt") == await rows.find(state="filled") == []


async def test_a_gap_extends_the_one_before_it_if_the_cause_is_the_same(store: StateStore) -> None:
    rows = GapRows(store)
    for one in (gap(1, 9), gap(10, 19), gap(20, 29, "lost"), gap(30, 39, reason="another")):
        await rows.open(one)

    found = await rows.find()

    assert [(row.first, row.last, row.cause, row.reason) for row in found] == [
        (1, 19, "disconnected", ""),
        (20, 29, "lost", ""),
        (30, 39, "disconnected", "another"),
    ]
    assert len(await store.find(GAPS)) == 3


async def test_a_gap_that_a_job_fills_is_not_extended(store: StateStore) -> None:
    rows = GapRows(store)
    await rows.open(gap(1, 9))
    await rows.attach(TRADES, "id", 1, 9, "a-job")

    await rows.open(gap(10, 19))

    found = [(row.first, row.last, row.job_id) for row in await rows.find()]
    assert found == [(1, 9, "a-job"), (10, 19, "")]


async def test_only_what_has_no_row_is_opened(store: StateStore) -> None:
    rows = GapRows(store)
    await rows.open(gap(10, 19))
    await rows.mark_filled(TRADES, "id", 10, 19)

    await rows.open(gap(1, 30, "lost"))

    assert await shown(rows) == [
        (1, 9, "open", "lost"),
        (10, 19, "filled", "disconnected"),
        (20, 30, "open", "lost"),
    ]


async def test_a_partly_filled_gap_is_split(store: StateStore) -> None:
    rows = GapRows(store)
    await rows.open(gap(1, 100, since_ms=5, until_ms=7))

    await rows.mark_filled(TRADES, "id", 40, 60, source="backfill")

    found = await rows.find()
    assert [(row.first, row.last, row.state) for row in found] == [
        (1, 39, "open"),
        (40, 60, "filled"),
        (61, 100, "open"),
    ]
    assert (found[1].source, found[1].filled_rows) == ("backfill", 21)
    assert found[1].closed_ms
    assert {(row.since_ms, row.until_ms) for row in found} == {(5, 7)}
    assert [row.first for row in await rows.find(state="open")] == [1, 61]


async def test_pages_of_a_fill_become_one_row(store: StateStore) -> None:
    rows = GapRows(store)
    await rows.open(gap(1, 10_000))
    await rows.attach(TRADES, "id", 1, 10_000, "a-job")

    for first in range(1, 10_000, 1000):
        await rows.mark_filled(TRADES, "id", first, first + 999)

    [row] = await rows.find()
    assert (row.first, row.last, row.state, row.job_id) == (1, 10_000, "filled", "")
    assert row.filled_rows == 10_000
    assert len(await store.find(GAPS)) == 1


async def test_a_fill_over_several_gaps_keeps_their_causes(store: StateStore) -> None:
    rows = GapRows(store)
    await rows.open(gap(1, 9))
    await rows.open(gap(10, 19, "lost"))
    await rows.open(gap(25, 29, "stopped"))

    await rows.mark_filled(TRADES, "id", 1, 27)

    assert await shown(rows) == [
        (1, 9, "filled", "disconnected"),
        (10, 19, "filled", "lost"),
        (25, 27, "filled", "stopped"),
        (28, 29, "open", "stopped"),
    ]


async def test_an_unfillable_gap_has_the_words_of_the_exchange(store: StateStore) -> None:
    rows = GapRows(store)
    await rows.open(gap(1, 9, reason="code 1006"))
    await rows.mark_filled(TRADES, "id", 4, 5)

    await rows.mark_unfillable(TRADES, "id", 1, 9, "only the last 7 days")

    assert [(row.first, row.last, row.state, row.reason) for row in await rows.find()] == [
        (1, 3, "unfillable", "only the last 7 days"),
        (4, 5, "filled", "code 1006"),
        (6, 9, "unfillable", "only the last 7 days"),
    ]


async def test_rows_of_candles_are_counted_once(store: StateStore) -> None:
    rows, stream = GapRows(store), Stream("kraken", "candles_1m", "btc_usd")
    for first in (0, 120_000):
        await rows.open(
            GapRow(
                **stream._asdict(), by="open_ms", first=first, last=first + 59_999, cause="missing"
            )
        )

    await rows.mark_filled(stream, "open_ms", 0, 200_000, rows=2)

    found = await rows.find()
    assert [row.state for row in found] == ["filled", "filled"]
    assert sum(row.filled_rows for row in found) == 2


async def test_a_shorter_row_that_appears_where_the_rest_of_a_split_belongs_loses_nothing(
    store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, insert = GapRows(store), store.insert_if_absent
    await rows.open(gap(1, 40))

    async def later(table: Table, document: Document) -> Inserted:
        monkeypatch.undo()
        await insert(GAPS, as_document(gap(11, 15)))
        return await insert(table, document)

    monkeypatch.setattr(store, "insert_if_absent", later)
    await rows.mark_filled(TRADES, "id", 1, 10)

    found = [(first, last, state) for first, last, state, _ in await shown(rows)]
    assert found == [(1, 10, "filled"), (11, 15, "open"), (16, 40, "open")]


async def test_workers_and_collectors_at_once_lose_no_part(store: StateStore) -> None:
    rows = GapRows(store)
    await rows.open(gap(1, 400))

    async def fill(first: int) -> None:
        await rows.mark_filled(TRADES, "id", first, first + 19)

    async def report(first: int) -> None:
        await rows.open(gap(first, first + 49))

    await asyncio.gather(
        *(fill(first) for first in range(1, 400, 40)),
        *(report(first) for first in range(1, 601, 40)),
        rows.attach(TRADES, "id", 200, 300, "a-job"),
    )

    found = {id_: row.state for row in await rows.find() for id_ in range(row.first, row.last + 1)}
    assert found == {
        id_: "filled" if id_ <= 400 and (id_ - 1) % 40 < 20 else "open" for id_ in range(1, 611)
    }


async def test_what_was_filled_and_then_lost_is_open_again(store: StateStore) -> None:
    rows = GapRows(store)
    await rows.open(gap(10, 19))
    await rows.open(gap(20, 29, "lost"))
    await rows.mark_filled(TRADES, "id", 10, 19)

    await rows.lose(gap(5, 25, "damaged", since_ms=7, opened_ms=8))

    assert await shown(rows) == [
        (5, 9, "open", "damaged"), (10, 19, "open", "damaged"), (20, 29, "open", "lost"),
    ]  # fmt: skip
    first, second, _ = await rows.find()
    assert (second.source, second.filled_rows, second.closed_ms) == ("", 0, None)
    assert (first.since_ms, second.since_ms, second.opened_ms) == (7, 7, 8)
    await rows.mark_filled(TRADES, "id", 5, 19)
    assert [row.state for row in await rows.find()] == ["filled", "open"]


RANGES = st.tuples(st.integers(1, 30), st.integers(0, 12)).map(lambda pair: (pair[0], sum(pair)))
ACTIONS = st.tuples(
    st.sampled_from(["open", "lost", "fill", "refuse", "attach", "lose"]),
    RANGES,
    st.none() | st.integers(0, 3),
)


class FailingStore:
    """A store that fails after some writes, as if the process had been killed there."""

    def __init__(self, store: StateStore, writes: int | None) -> None:
        self._store, self._left = store, writes

    def __getattr__(self, name: str) -> Any:
        if name in ("update", "insert_if_absent", "delete") and self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise StoreUnreachable("memory:", "killed")
        return getattr(self._store, name)


async def apply(rows: GapRows, action: str, first: int, last: int) -> None:
    if action == "fill":
        await rows.mark_filled(TRADES, "id", first, last)
    elif action == "refuse":
        await rows.mark_unfillable(TRADES, "id", first, last, "no")
    elif action == "attach":
        await rows.attach(TRADES, "id", first, last, "a-job")
    elif action == "lose":
        await rows.lose(gap(first, last, "damaged"))
    else:
        await rows.open(gap(first, last, "lost" if action == "lost" else "disconnected"))


def expect(model: dict[int, tuple[str, str]], action: str, first: int, last: int) -> None:
    """The same on a plain dictionary of ids."""
    for id_ in range(first, last + 1):
        if action in ("open", "lost"):
            cause = "lost" if action == "lost" else "disconnected"
            model.setdefault(id_, ("open", cause))
        elif action == "lose" and model.get(id_, ("filled",))[0] == "filled":
            model[id_] = ("open", "damaged")
        elif id_ in model:
            state, cause = model[id_]
            if action == "fill":
                model[id_] = ("filled", cause)
            elif action == "refuse" and state == "open":
                model[id_] = ("unfillable", cause)


@given(st.lists(ACTIONS, max_size=25))
def test_any_history_equals_a_set_of_ids(actions: list[Any]) -> None:
    async def run() -> None:
        store = await open_store("memory:")
        model: dict[int, tuple[str, str]] = {}
        for action, (first, last), killed_after in actions:
            before = dict(model)
            expect(model, action, first, last)
            try:
                await apply(GapRows(FailingStore(store, killed_after)), action, first, last)  # type: ignore[arg-type]
            except StoreUnreachable:
                # A part of it may be done, nothing else; then it is repeated.
                found = {id_: row async for id_, row in ids_of(store)}
                for id_ in {*before, *model, *found}:
                    assert found.get(id_) in (before.get(id_), model.get(id_))
                await apply(GapRows(store), action, first, last)
            assert {id_: found async for id_, found in ids_of(store)} == model

    asyncio.run(run())


async def ids_of(store: StateStore) -> Any:
    seen = set()
    for row in await GapRows(store).find():
        for id_ in range(row.first, row.last + 1):
            assert id_ not in seen
            seen.add(id_)
            yield id_, (row.state, row.cause)


def timed(row: GapRow) -> GapRow:
    """A gap between two records, of which there is one every 10 ms."""
    return replace(row, since_ms=10 * row.first - 10, until_ms=10 * row.last + 10)


@given(st.lists(ACTIONS, max_size=15), RANGES)
def test_those_in_a_range_of_time_are_found_without_the_others(
    actions: list[Any], asked: tuple[int, int]
) -> None:
    since_ms, until_ms = 10 * asked[0], 10 * asked[1]

    async def run() -> None:
        rows = GapRows(await open_store("memory:"))
        for action, (first, last), _ in actions:
            if action in ("open", "lost"):
                await rows.open(timed(gap(first, last, action)))
            elif action == "lose":
                await rows.lose(timed(gap(first, last, "damaged")))
            else:
                await apply(rows, action, first, last)
        found = await rows.within(TRADES, since_ms, until_ms)

        for row in found:
            assert (row.since_ms or 0) < until_ms
            assert (row.until_ms or 0) > since_ms
        states = [
            {id_: row.state for row in some for id_ in range(row.first, row.last + 1)}
            for some in (found, await rows.find())
        ]
        for id_ in range(asked[0] + 1, asked[1]):
            assert states[0].get(id_) == states[1].get(id_)

    asyncio.run(run())


async def test_a_range_of_time_has_gaps_by_time_and_of_unknown_time(store: StateStore) -> None:
    candles = Stream("binance", "candles_1m", "btc_usdt")
    rows, unknown = GapRows(store), gap(1, 2)
    minutes = GapRow(**candles._asdict(), by="open_ms", first=60_000, last=179_999, cause="missing")
    received = replace(minutes, by="received_ns", first=10**12, last=2 * 10**12)
    for each in (unknown, gap(5, 6, since_ms=40, until_ms=70), minutes, received):
        await rows.open(each)

    assert await rows.within(TRADES, 0, 40) == [unknown]
    assert [row.first for row in await rows.within(TRADES, 0, 41)] == [1, 5]
    assert [row.first for row in await rows.within(TRADES, 70, 80)] == [1]
    assert [row.by for row in await rows.within(candles, 120_000, 130_000)] == ["open_ms"]
    assert [row.by for row in await rows.within(candles, 1_500_000, 3_000_000)] == ["received_ns"]
    assert await rows.within(candles, 5_000_000, 6_000_000) == []
