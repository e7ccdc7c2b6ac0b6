"""Id runs against a plain set of ids."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.coverage.id_runs import IdGap, IdRuns

runs = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 6)), max_size=40)


@given(runs)
def test_runs_equal_a_set_of_ids(steps: list[tuple[int, int]]) -> None:
    ids, model = IdRuns(), set[int]()
    for first, length in steps:
        added = set(range(first, first + length + 1))
        assert ids.add_run(first, first + length) == (not added <= model)
        model |= added

        assert (ids.first, ids.last, len(ids)) == (min(model), max(model), len(model))
        missing = set(range(min(model), max(model) + 1)) - model
        gaps = ids.gaps()
        assert {n for gap in gaps for n in range(gap.first, gap.last + 1)} == missing
        assert sum(gap.size for gap in gaps) == len(missing)
        assert all(b.first > a.last + 1 for a, b in pairwise(gaps))


def test_a_newer_id_shows_a_lost_tail() -> None:
    ids = IdRuns()
    ids.add_run(5, 9)

    assert ids.gaps(upto=9) == []
    assert ids.gaps(upto=12) == [IdGap(10, 12)]


def test_nothing_seen_is_nothing_missing() -> None:
    assert IdRuns().gaps(upto=100) == []
    assert (IdRuns().first, IdRuns().last) == (None, None)


def test_a_late_id_closes_its_hole() -> None:
    ids = IdRuns()
    ids.add(1)
    ids.add(3)
    assert ids.gaps() == [IdGap(2, 2)]

    assert ids.add(2)
    assert not ids.add(2), "twice is not new"
    assert ids.gaps() == []


def test_missing_ranges_of_a_range() -> None:
    held = IdRuns()
    held.add_run(3, 5)
    held.add_run(8, 9)
    assert held.lacking(1, 10) == [(1, 2), (6, 7), (10, 10)]
    assert held.lacking(4, 8) == [(6, 7)]
    assert held.lacking(3, 5) == []
