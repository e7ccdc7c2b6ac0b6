"""Rules: no interval a limit speaks of is ever overfull, and a usage is a value."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import NeverGranted
from penstock.throttle.rules import BucketRule, FixedRule, Rule
from penstock.throttle.sliding import SlidingRule

LIMIT, PERIOD = 20, 1000
FIXED = FixedRule(LIMIT, PERIOD)
SLIDING = SlidingRule(LIMIT, PERIOD)
BUCKET = BucketRule(LIMIT, amount=3, period=500)
RULES: list[Rule[Any]] = [FIXED, SLIDING, BUCKET]
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)

STEPS = st.lists(st.tuples(st.integers(0, 400), st.integers(1, LIMIT)), max_size=60)


def granted(rule: Rule[Any], steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Take as the steps say; what was granted, as (at, cost)."""
    now, usage, found = 0, rule.fresh(), []
    for pause, cost in steps:
        now += pause
        usage, wait = rule.take(usage, cost, now)
        if not wait:
            found.append((now, cost))
    return found


@given(STEPS)
def test_no_aligned_period_exceeds_the_limit(steps: list[tuple[int, int]]) -> None:
    spent: dict[int, int] = {}
    for at, cost in granted(FIXED, steps):
        spent[at // PERIOD] = spent.get(at // PERIOD, 0) + cost
    assert all(total <= LIMIT for total in spent.values())


@given(STEPS)
def test_no_period_at_all_exceeds_the_limit_of_a_sliding_rule(steps: list[tuple[int, int]]) -> None:
    grants = granted(SLIDING, steps)
    for end, _ in grants:
        assert sum(cost for at, cost in grants if end - PERIOD < at <= end) <= LIMIT


@given(STEPS)
def test_a_bucket_lets_through_its_capacity_and_what_flows_in(steps: list[tuple[int, int]]) -> None:
    grants = granted(BUCKET, steps)
    for first, (begin, _) in enumerate(grants):
        total = 0
        for end, cost in grants[first:]:
            total += cost
            assert total * BUCKET.period <= LIMIT * BUCKET.period + BUCKET.amount * (end - begin)


@each_rule
@given(steps=STEPS, cost=st.integers(1, LIMIT))
def test_a_wait_is_as_long_as_it_must_be_and_no_longer(
    rule: Rule[Any], steps: list[tuple[int, int]], cost: int
) -> None:
    now, usage = 0, rule.fresh()
    for pause, each in steps:
        now += pause
        usage, _ = rule.take(usage, each, now)
    wait = rule.wait(usage, cost, now)

    assert rule.take(usage, cost, now + wait)[1] == 0
    if wait:
        assert rule.take(usage, cost, now + wait - 1)[1] > 0


@each_rule
@given(steps=STEPS)
def test_a_refused_request_spends_nothing(rule: Rule[Any], steps: list[tuple[int, int]]) -> None:
    now, usage = 0, rule.fresh()
    for pause, cost in steps:
        now += pause
        before = rule.as_of(usage, now)[0]
        usage, wait = rule.take(usage, cost, now)
        assert rule.as_of(usage, now)[0] == before + (0 if wait else cost)


@each_rule
@given(steps=STEPS, other=st.integers(1, LIMIT))
def test_a_usage_never_changes_whoever_goes_on_from_it(
    rule: Rule[Any], steps: list[tuple[int, int]], other: int
) -> None:
    """Two histories that share a past: neither sees what the other did."""
    now, usage, told = 0, rule.fresh(), []
    for pause, cost in steps:
        now += pause
        rule.take(usage, other, now)
        usage, wait = rule.take(usage, cost, now)
        told.append((now, cost, wait))

    alone = rule.fresh()
    for at, cost, wait in told:
        alone, wait_alone = rule.take(alone, cost, at)
        assert wait_alone == wait


@each_rule
@given(
    steps=STEPS,
    backs=st.lists(st.integers(0, 59), max_size=3),
    back_by=st.sampled_from([1, 999, 3_600_000]),
)
def test_a_clock_that_goes_back_makes_no_room(
    rule: Rule[Any], steps: list[tuple[int, int]], backs: list[int], back_by: int
) -> None:
    """However the clock is set, a full limit stays full until more time has truly passed."""
    now, usage = 10_000_000, rule.fresh()
    for place, (pause, cost) in enumerate(steps):
        now += pause
        before = rule.as_of(usage, now)[0]
        if place in backs:
            now -= back_by
            assert rule.as_of(usage, now)[0] >= before
        usage, wait = rule.take(usage, cost, now)
        assert wait >= 0
        assert rule.as_of(usage, now)[0] <= rule.limit


def test_a_bucket_does_not_fill_while_the_clock_goes_back() -> None:
    usage, _ = BUCKET.take(BUCKET.fresh(), LIMIT, 10_000)

    assert BUCKET.wait(usage, 1, 0) > 10_000


def test_a_use_from_before_the_clock_went_back_keeps_those_after_it() -> None:
    rule = SlidingRule(20, 1000)
    usage = rule.fresh()
    for at, cost in [(1000, 1), (1, 2), (200, 1), (600, 1)]:
        usage, _ = rule.take(usage, cost, at)

    wait = rule.wait(usage, 17, 1001)

    assert wait == 999
    assert rule.take(usage, 17, 1001 + wait)[1] == 0


@each_rule
def test_a_refund_gives_back_once_and_never_above_the_limit(rule: Rule[Any]) -> None:
    usage, _ = rule.take(rule.fresh(), 5, 100)
    usage = rule.refund(usage, 100, 5, 100)

    assert rule.as_of(usage, 100)[0] == 0
    with pytest.raises(NeverGranted):
        rule.refund(usage, 100, 5, 100)


@each_rule
def test_what_came_back_by_itself_is_not_given_back_again(rule: Rule[Any]) -> None:
    usage, _ = rule.take(rule.fresh(), LIMIT, 100)
    later = 100 + 10 * PERIOD
    usage, wait = rule.take(usage, LIMIT, later)
    assert wait == 0

    usage = rule.refund(usage, 100, LIMIT, later)

    assert rule.as_of(usage, later)[0] == LIMIT


def test_a_bucket_gives_back_only_what_has_not_flowed_in_since() -> None:
    usage, _ = BUCKET.take(BUCKET.fresh(), 6, 0)
    usage = BUCKET.refund(usage, 0, 6, 500)
    assert usage.used == 0, "3 flowed in, 3 were given back"

    usage, _ = BUCKET.take(BUCKET.fresh(), 6, 0)
    usage, _ = BUCKET.take(usage, 6, 900)
    assert BUCKET.refund(usage, 0, 6, 900).used == 6, "0.6 is all that is surely still lacking"


@each_rule
def test_what_others_use_counts_and_an_old_count_does_not_lower_it(rule: Rule[Any]) -> None:
    usage, _ = rule.take(rule.fresh(), 5, 100)
    usage = rule.observe(usage, 12, 100, 100)
    usage = rule.observe(usage, 7, 100, 100)

    assert rule.as_of(usage, 100)[0] == 12
    assert rule.wait(usage, LIMIT - 11, 100) > 0
    assert rule.wait(usage, LIMIT - 12, 100) == 0


@each_rule
def test_a_count_below_ones_own_makes_no_room(rule: Rule[Any]) -> None:
    usage, _ = rule.take(rule.fresh(), 12, 100)

    assert rule.observe(usage, 5, 100, 100)[0] == 12


def test_a_bucket_is_waited_for_until_the_last_part_has_flowed_in() -> None:
    rule = BucketRule(1, amount=3, period=1000)
    usage, _ = rule.take(rule.fresh(), 1, 0)

    assert rule.wait(usage, 1, 0) == 334, "after 333 a thousandth is lacking"


def test_what_is_in_flight_is_added_to_what_the_other_side_tells() -> None:
    rule = FixedRule(LIMIT, PERIOD, answers=True)
    usage, _ = rule.take(rule.fresh(), 2, 100)
    usage, _ = rule.take(usage, 3, 110)
    usage = rule.observe(rule.answered(usage, 100, 2), 9, 120, 120)
    assert usage.used == 12

    assert rule.answered(usage, 110, 3).used == 9


def test_a_count_of_the_window_before_is_not_of_this_one() -> None:
    usage, _ = FIXED.take(FIXED.fresh(), 1, 1050)
    assert FIXED.observe(usage, 20, at=990, now=1100).used == 1


def test_nothing_is_granted_in_the_bands_at_both_ends_of_a_window() -> None:
    rule = FixedRule(LIMIT, PERIOD, opening=30, closing=100)
    waits = {now: rule.wait(rule.fresh(), 1, now) for now in (0, 29, 30, 899, 900, 999)}

    assert waits == {0: 30, 29: 1, 30: 0, 899: 0, 900: 130, 999: 31}
    usage, _ = rule.take(rule.fresh(), 1, 500)
    assert [rule.holds(usage, 500, now) for now in (899, 900, 1500)] == [True, False, False]


def test_a_long_log_is_forgotten_as_it_expires() -> None:
    rule = SlidingRule(10, PERIOD)
    usage = rule.fresh()
    for now in range(0, 5_000_000, 100):
        usage, wait = rule.take(usage, 1, now)
        assert wait == 0
    assert len(usage[4]) < 20_000


SPACINGS: list[tuple[Rule[Any], Callable[[int], float]]] = [
    (SLIDING, lambda cost: cost * PERIOD / LIMIT),
    (BUCKET, lambda cost: cost * 500 / 3),
]


@pytest.mark.parametrize(("rule", "formula"), SPACINGS)
@given(used=st.integers(1, LIMIT), cost=st.integers(1, LIMIT))
def test_sliding_and_bucket_are_paced_by_their_rate_however_full(
    rule: Rule[Any], formula: Callable[[int], float], used: int, cost: int
) -> None:
    usage, _ = rule.take(rule.fresh(), used, 0)
    assert rule.spacing(usage, cost, 0) == int(formula(cost))
