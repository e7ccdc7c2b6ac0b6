"""Back-off: delays grow, are capped, and chance only shortens them."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.resilience.backoff import Backoff


def test_delays_grow_by_the_factor_up_to_the_cap() -> None:
    backoff = Backoff(attempts=6, first_s=1, multiplier=2, longest_s=5, jitter=0)

    assert list(backoff.delays(lambda: 0.9)) == [1, 2, 4, 5, 5]


def test_chance_takes_its_share_off_every_delay() -> None:
    draws = iter([0.0, 0.5, 1.0])
    backoff = Backoff(attempts=4, first_s=4, multiplier=1, jitter=0.5)

    assert list(backoff.delays(lambda: next(draws))) == [4, 3, 2]


def test_one_attempt_has_no_delay() -> None:
    assert list(Backoff(attempts=1).delays(lambda: 0.0)) == []


@given(retry=st.integers(0, 10_000), draw=st.floats(0, 1, exclude_max=True))
def test_a_delay_lies_between_its_jittered_floor_and_the_cap(retry: int, draw: float) -> None:
    backoff = Backoff(first_s=0.25, multiplier=3, longest_s=10, jitter=0.5)
    full = backoff.delay(retry, 0.0)

    assert full * 0.5 <= backoff.delay(retry, draw) <= full <= 10
