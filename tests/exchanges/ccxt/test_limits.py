"""ccxt's pace, as a limit: never faster, whatever a step or a cost is."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.exchanges.ccxt.limits import UNITS, limits_of, units


@given(st.floats(min_value=0.5, max_value=10_000))
def test_a_request_of_cost_one_passes_no_more_often_than_ccxt_would_let_it(step_ms: float) -> None:
    (limit,) = limits_of(step_ms)

    assert limit.kind == "paced"
    assert limit.most == UNITS
    per_request_ms = UNITS * limit.period_ms / limit.amount
    assert step_ms * 1.1 - 1e-6 <= per_request_ms <= step_ms * 1.1 + 0.01


def test_without_a_word_from_ccxt_two_seconds_are_kept() -> None:
    assert limits_of(None) == limits_of(0) == limits_of(2000)


@given(st.floats(min_value=0, max_value=5000))
def test_a_cost_is_never_rounded_down_nor_to_nothing(cost: float) -> None:
    assert units(cost) >= 1
    assert units(cost) >= cost * UNITS - 1e-6
    assert units(cost) <= max(1, cost * UNITS + 1)


def test_whole_hundredths_stay_what_they_are() -> None:
    assert [units(cost) for cost in (1, 0.2, 0.29, 1.2, 3.3334)] == [100, 20, 29, 120, 334]
