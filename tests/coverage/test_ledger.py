"""The ledger of a series, compared with plain sets of ids."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.coverage.ledger import Interval, by_series, intervals, joined_runs
from penstock.coverage.model import GapRow, Run, SlotCoverage
from penstock.storage.log.keys import Stream

TRADES = Stream("binance", "trades", "btc_usdt")


def held(slot: str, *runs: tuple[int, int]) -> SlotCoverage:
    """What a slot holds; id n happened in millisecond 10 n."""
    return SlotCoverage(
        **TRADES._asdict(), log_id=1, slot=slot, number=0, by="id",
        runs=tuple(Run(first, last, 10 * first, 10 * last) for first, last in runs),
    )  # fmt: skip


def gap(first: int, last: int, **other: Any) -> GapRow:
    row = {"cause": "lost", "since_ms": 10 * (first - 1), "until_ms": 10 * (last + 1), **other}
    return GapRow(**TRADES._asdict(), by="id", first=first, last=last, **row)


def brief(found: list[Interval]) -> list[tuple[int, int, str]]:
    return [(each.first, each.last, each.state) for each in found]


def test_clean_collection_is_one_interval() -> None:
    [interval] = intervals([held("a", (1, 500)), held("b", (501, 900), (300, 400))], [])

    assert interval == Interval(first=1, last=900, since_ms=10, until_ms=9000, state="complete")


def test_a_gap_between_runs_has_its_cause() -> None:
    row = gap(11, 20, cause="disconnected", origin="exchange", reason="code 1006")

    found = intervals([held("a", (1, 10), (21, 30))], [row])

    assert brief(found) == [(1, 10, "complete"), (11, 20, "gap"), (21, 30, "complete")]
    assert (found[1].cause, found[1].origin, found[1].reason) == (
        "disconnected", "exchange", "code 1006",
    )  # fmt: skip
    assert [(each.since_ms, each.until_ms) for each in found] == [(10, 100), (100, 210), (210, 300)]


def test_what_was_filled_is_told_apart_although_a_slot_holds_it() -> None:
    row = gap(11, 20, state="filled", source="backfill")

    found = intervals([held("a", (1, 10), (21, 30)), held("work-0", (11, 20))], [row])

    assert brief(found) == [(1, 10, "complete"), (11, 20, "filled"), (21, 30, "complete")]
    assert found[1].source == "backfill"


def test_what_another_slot_holds_is_no_gap() -> None:
    found = intervals([held("a", (1, 10), (21, 30)), held("b", (5, 15))], [gap(11, 20)])

    assert brief(found) == [(1, 15, "complete"), (16, 20, "gap"), (21, 30, "complete")]


def test_what_was_lost_later_is_a_gap_although_a_slot_lists_it() -> None:
    found = intervals([held("a", (1, 30))], [gap(11, 20, cause="damaged")])

    assert brief(found) == [(1, 10, "complete"), (11, 20, "gap"), (21, 30, "complete")]


def test_series_do_not_mix() -> None:
    other = GapRow(exchange="kraken", channel="trades", symbol="btc_usd", by="id", first=1, last=2,
                   cause="lost")  # fmt: skip

    found = by_series([held("a", (1, 10))], [other])

    assert [(str(stream), brief(each)) for (stream, _), each in found.items()] == [
        ("binance.trades.btc_usdt", [(1, 10, "complete")]),
        ("kraken.trades.btc_usd", [(1, 2, "gap")]),
    ]


RUNS = st.tuples(st.integers(1, 40), st.integers(0, 10)).map(lambda pair: (pair[0], sum(pair)))
STATES = st.sampled_from(["open", "filled", "unfillable"])
CAUSES = st.sampled_from(["lost", "disconnected", "damaged"])


@given(
    st.lists(st.lists(RUNS, max_size=5), max_size=3),
    st.lists(st.tuples(RUNS, STATES, CAUSES), max_size=8, unique_by=lambda row: row[0][0]),
)
def test_any_ledger_equals_sets_of_ids(slots: list[Any], rows: list[Any]) -> None:
    complete = {id_ for runs in slots for a, b in runs for id_ in range(a, b + 1)}
    missing = {
        id_: (state, cause)
        for (first, last), state, cause in sorted(rows)
        for id_ in range(first, last + 1)
    }
    expected = dict.fromkeys(complete, ("complete", ""))
    for id_, (state, cause) in missing.items():
        if state == "filled" or cause == "damaged" or id_ not in complete:
            expected[id_] = ("gap" if state == "open" else state, cause)

    found = intervals(
        [held(str(number), *runs) for number, runs in enumerate(slots)],
        [gap(*ids, state=state, cause=cause) for ids, state, cause in rows],
    )

    ids = [id_ for each in found for id_ in range(each.first, each.last + 1)]
    assert ids == sorted(set(ids))
    told = {
        id_: (each.state, each.cause) for each in found for id_ in range(each.first, each.last + 1)
    }
    assert told == expected
    # No two neighbours could be one.
    for left, right in pairwise(found):
        unequal = (left.state, left.cause) != (right.state, right.cause)
        assert left.last + 1 < right.first or unequal


@given(st.lists(RUNS))
def test_joined_runs_have_the_times_of_their_ends(ranges: list[tuple[int, int]]) -> None:
    found = joined_runs(Run(first, last, 10 * first, 10 * last) for first, last in ranges)

    assert all((run.since_ms, run.until_ms) == (10 * run.first, 10 * run.last) for run in found)
    assert all(a.last + 1 < b.first for a, b in pairwise(found))
    held_ids = {id_ for run in found for id_ in range(run.first, run.last + 1)}
    assert held_ids == {id_ for first, last in ranges for id_ in range(first, last + 1)}
