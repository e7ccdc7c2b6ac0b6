"""Schedules: a grid without drift, one jitter per job, an order that starves nobody."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.jobs.schedule import AGEING_MS, jitter_ms, next_due, rank, wake_ms

MINUTE_MS = 60_000
INTERVALS = st.integers(1_000, 30 * 86_400_000)
INSTANTS = st.integers(1_500_000_000_000, 2_000_000_000_000)


@given(st.text(), INTERVALS)
def test_a_jobs_jitter_is_at_most_a_twentieth_and_always_the_same(
    job_id: str, interval_ms: int
) -> None:
    jitter = jitter_ms(job_id, interval_ms)

    assert abs(jitter) <= interval_ms * 0.05
    assert jitter == jitter_ms(job_id, interval_ms)


def test_jobs_of_one_interval_are_spread_over_a_tenth_of_it() -> None:
    drawn = [jitter_ms(f"job-{n}", 3_600_000) for n in range(1_000)]

    assert min(drawn) < -0.045 * 3_600_000
    assert max(drawn) > 0.045 * 3_600_000
    assert len(set(drawn)) > 990
    assert abs(sum(drawn) / len(drawn)) < 0.005 * 3_600_000


@given(st.text(), INTERVALS, INSTANTS)
def test_the_next_due_instant_is_later_by_an_interval_at_most(
    job_id: str, interval_ms: int, now_ms: int
) -> None:
    due_ms = next_due(job_id, interval_ms, now_ms)

    assert now_ms < due_ms <= now_ms + interval_ms


@given(st.text(), INTERVALS, INSTANTS, st.lists(st.floats(0, 0.99), max_size=20))
def test_late_runs_do_not_move_the_grid(
    job_id: str, interval_ms: int, now_ms: int, lateness: list[float]
) -> None:
    first = due_ms = next_due(job_id, interval_ms, now_ms)
    for share in lateness:
        due_ms = next_due(job_id, interval_ms, due_ms + int(share * interval_ms))

    assert due_ms == first + len(lateness) * interval_ms


def test_the_run_after_a_late_one_is_on_the_same_grid() -> None:
    due_ms = next_due("job", MINUTE_MS, 1_700_000_000_000)

    assert next_due("job", MINUTE_MS, due_ms + MINUTE_MS // 2) == due_ms + MINUTE_MS


@given(st.text(), INTERVALS, INSTANTS, st.integers(1, 10_000))
def test_after_a_downtime_one_run_is_due_and_then_the_grid_again(
    job_id: str, interval_ms: int, now_ms: int, missed: int
) -> None:
    before_ms = next_due(job_id, interval_ms, now_ms)
    back_ms = before_ms + missed * interval_ms + interval_ms // 2

    after_ms = next_due(job_id, interval_ms, back_ms)

    assert back_ms < after_ms <= back_ms + interval_ms
    assert (after_ms - before_ms) % interval_ms == 0


@given(st.text(), st.sampled_from([MINUTE_MS, 5 * MINUTE_MS, 3_600_000]), INSTANTS)
def test_candles_are_asked_for_once_they_have_closed(
    job_id: str, interval_ms: int, now_ms: int
) -> None:
    assert 0 <= next_due(job_id, interval_ms, now_ms) % interval_ms <= interval_ms * 0.1


@given(INSTANTS, st.integers(0, 100), st.integers(0, 100))
def test_whoever_has_waited_long_enough_goes_first(now_ms: int, urgent: int, patient: int) -> None:
    """For every pair of priorities there is a wait after which nothing new comes before it."""
    low, high = sorted((urgent, patient))
    waited_ms = (high - low) * AGEING_MS

    assert rank(now_ms - waited_ms - 1, high) < rank(now_ms, low)
    assert rank(now_ms - waited_ms + 1, high) > rank(now_ms, low)


@given(st.integers(1, 50), st.integers(0, 200), st.integers(1, 60_000))
def test_no_window_wakes_more_than_it_serves(serves: int, waiting: int, window_ms: int) -> None:
    wakes = [wake_ms(1_000_000, ahead, serves, window_ms) for ahead in range(waiting)]

    assert all(wake >= 1_000_000 for wake in wakes)
    assert wakes == sorted(wakes)
    for wake in set(wakes):
        assert wakes.count(wake) <= serves
