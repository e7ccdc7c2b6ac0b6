"""Shapes compose exactly: an aggregate is what its trades sum to, scaled and joined at will."""

from functools import reduce
from hashlib import sha256
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.simulator.market.shapes import (
    EMPTY,
    Aggregate,
    Fills,
    Library,
    Minute,
    Part,
    Tier,
    join,
    scale,
)

Trades = list[tuple[int, int, int, int]]
"""Time, offset, quantity, whether the taker bought."""

trades = st.lists(
    st.tuples(st.integers(0, 59_999), st.integers(-50, 50), st.integers(1, 99), st.integers(0, 1)),
    max_size=12,
).map(sorted)
factors = st.tuples(st.integers(-4, 4).filter(bool), st.integers(1, 5))


@pytest.fixture(scope="module")
def library() -> Library:
    return Library(6)


def minute_of(rows: Trades) -> Minute:
    return Minute(Fills(*([row[column] for row in rows] for column in range(4))))


def aggregate_of(rows: Trades) -> Aggregate:
    """The same by definition."""
    if not rows:
        return EMPTY
    offsets = [offset for _, offset, _, _ in rows]
    return Aggregate(
        trades=len(rows),
        groups=sum(1 for _ in groupby(rows, key=lambda row: (row[0], row[1], row[3]))),
        volume=sum(quantity for _, _, quantity, _ in rows),
        turnover=sum(offset * quantity for _, offset, quantity, _ in rows),
        taker_volume=sum(quantity * buys for _, _, quantity, buys in rows),
        taker_turnover=sum(offset * quantity * buys for _, offset, quantity, buys in rows),
        first=offsets[0],
        last=offsets[-1],
        high=max(offsets),
        low=min(offsets),
    )


def shifted(rows: Trades, by: int) -> Trades:
    return [(at_ms, offset + by, quantity, buys) for at_ms, offset, quantity, buys in rows]


@given(trades)
def test_a_minute_knows_its_sums(rows: Trades) -> None:
    assert minute_of(rows).aggregate == aggregate_of(rows)


@given(trades, st.data())
def test_a_part_of_a_minute_is_relative_to_the_trade_before_it(
    rows: Trades, data: st.DataObject
) -> None:
    begin = data.draw(st.integers(0, len(rows)))
    end = data.draw(st.integers(begin, len(rows)))
    before = rows[begin - 1][1] if begin else 0

    part = minute_of(rows).part(begin, end)

    expected = aggregate_of(shifted(rows[begin:end], -before))
    # A group that began before the part is not one of the part's.
    assert part._replace(groups=0) == expected._replace(groups=0)


@given(trades, trades)
def test_joining_is_summing_one_run_after_the_other(a: Trades, b: Trades) -> None:
    base = a[-1][1] if a else 0
    after = [(60_000 + at_ms, *rest) for at_ms, *rest in shifted(b, base)]
    joined = join(aggregate_of(a), aggregate_of(b))

    assert joined == aggregate_of([*a, *after])  # type: ignore[list-item]


@given(trades, factors)
def test_a_negative_factor_mirrors_prices_and_sides(rows: Trades, factor: tuple[int, int]) -> None:
    k, g = factor
    mirrored = [
        (at_ms, offset * k, quantity * g, buys if k > 0 else 1 - buys)
        for at_ms, offset, quantity, buys in rows
    ]

    assert scale(aggregate_of(rows), k, g) == aggregate_of(mirrored)


@given(trades, trades, trades)
def test_joining_is_associative_and_nothing_is_its_identity(
    a: Trades, b: Trades, c: Trades
) -> None:
    x, y, z = map(aggregate_of, (a, b, c))

    assert join(join(x, y), z) == join(x, join(y, z))
    assert join(EMPTY, x) == x == join(x, EMPTY)


@given(st.lists(trades, min_size=1, max_size=4), st.data())
def test_the_cells_of_a_tier_join_its_children(children: list[Trades], data: st.DataObject) -> None:
    sums = [aggregate_of(rows) for rows in children]
    which = st.integers(0, len(children) - 1)
    parts = data.draw(
        st.lists(
            st.tuples(which, factors).map(lambda part: Part(part[0], *part[1])),
            min_size=12,
            max_size=12,
        )
    )
    tier = Tier(12, (1, 3, 4, 6, 12))
    tier.add(parts, sums)
    tier.add(parts[::-1], sums)

    scaled = [scale(sums[shape], k, g) for shape, k, g in parts[::-1]]
    for span, cells in tier.cells.items():
        for i in range(0, 12, span):
            at = (12 + i) // span * 10
            assert Aggregate(*cells[at : at + 10]) == reduce(join, scaled[i : i + span])
    assert tier.totals[1] == reduce(join, scaled)
    assert list(tier.offset[13:]) == [sum(a.last for a in scaled[:i]) for i in range(13)]
    assert list(tier.trades[13:]) == [sum(a.trades for a in scaled[:i]) for i in range(13)]


def test_a_library_is_that_of_every_other_machine(library: Library) -> None:
    columns = (library.days.cells[1], library.hours.cells[1], library.days.k, library.hours.g)
    text = repr([list(column[:5_000]) for column in columns])

    assert sha256(text.encode()).hexdigest()[:32] == "97c6625f4a768ccb4411705abe88506b"


def test_a_library_trades_at_about_its_rate_with_empty_minutes_among_them(
    library: Library,
) -> None:
    minutes = len(library.days.totals) * 1440
    rate = sum(day.trades for day in library.days.totals) / minutes
    empty = sum(not library.minutes[shape].aggregate.trades for shape in library.hours.child)

    assert 4 < rate < 8
    assert 0.1 < empty / len(library.hours.child) < 0.5


def test_takers_are_often_met_by_several_makers(library: Library) -> None:
    groups, trades = (
        sum(getattr(day, count) for day in library.days.totals) for count in ("groups", "trades")
    )

    assert 0.5 < groups / trades < 0.8


def test_the_calm_day_neither_dips_much_nor_ends_lower(library: Library) -> None:
    calm = scale(library.days.totals[library.calm_day], library.calm_k, 1)

    assert calm.last >= 0
    assert calm.low > -library.day_move // 4


def test_an_unknown_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="No library for 7 trades a minute"):
        Library(7)
