"""Rates from counts: right over restarts, whenever they are read."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.monitor.rates import KEPT_MS, POINT_MS, RateSampler, Reading


def reading(messages: int, at_ms: int, *, started_ms: int = 0, process: str = "a") -> Reading:
    return Reading(process, "toy", started_ms, at_ms, messages)


def test_a_rate_is_known_after_two_counts() -> None:
    sampler = RateSampler()
    assert sampler.total is None
    sampler.observe([reading(1_000_000, 60_000)], 60_000)
    assert (sampler.rate("toy"), sampler.total, sampler.points) == (None, None, [])

    sampler.observe([reading(1_000_300, 63_000)], 63_100)
    assert sampler.rate("toy") == sampler.total == sampler.process_rate("a") == 100
    assert sampler.rate("other") is sampler.process_rate("b") is None
    # The same status once more changes nothing.
    sampler.observe([reading(1_000_300, 63_000)], 64_100)
    assert sampler.rate("toy") == 100


def test_a_restarted_process_has_counted_from_its_start() -> None:
    sampler = RateSampler()
    sampler.observe([reading(5_000, 10_000)], 10_000)
    sampler.observe([reading(5_300, 13_000)], 13_000)
    sampler.observe([reading(20, 14_500, started_ms=14_000)], 14_500)
    assert sampler.rate("toy") is None  # half a second says nothing

    sampler.observe([reading(200, 16_000, started_ms=14_000)], 16_000)
    assert sampler.rate("toy") == pytest.approx(120)


def test_nothing_that_runs_is_a_rate_of_nothing() -> None:
    sampler = RateSampler()
    sampler.observe([], 1_000)
    assert sampler.total == 0


def test_a_clock_that_is_set_back_is_survived() -> None:
    sampler = RateSampler()
    sampler.observe([reading(0, 100_000)], 100_000)
    sampler.observe([reading(300, 103_000)], 103_000)
    sampler.observe([reading(400, 40_000)], 40_000)
    assert sampler.rate("toy") == 100
    sampler.observe([reading(1_000, 43_000)], 43_000)
    assert sampler.rate("toy") == 200
    assert [at_ms for at_ms, _ in sampler.points] == [40_000]


def test_points_are_those_of_ten_minutes_whoever_asks_how_often() -> None:
    sampler = RateSampler()
    for at_ms in range(0, 2 * KEPT_MS, 1_000):
        sampler.observe([reading(at_ms // 10, at_ms)], at_ms)
    times = [at_ms for at_ms, _ in sampler.points]
    assert len(times) == KEPT_MS // POINT_MS
    assert times[-1] - times[0] < KEPT_MS
    assert {later - sooner for sooner, later in itertools.pairwise(times)} == {POINT_MS}
    assert {per_s for _, per_s in sampler.points} == {100}


Run = st.lists(st.tuples(st.integers(1_000, 9_000), st.integers(0, 5_000)), min_size=1, max_size=8)
"""One run of a process: the time and the messages between two statuses."""


@given(st.dictionaries(st.sampled_from("abc"), st.lists(Run, min_size=1, max_size=3), min_size=1))
def test_rates_are_those_of_the_last_two_counts_of_each_process(
    runs: dict[str, list[list[tuple[int, int]]]],
) -> None:
    sampler = RateSampler()
    expected: dict[str, float] = {}
    latest: dict[str, Reading] = {}
    for process, of_process in runs.items():
        at_ms = 0
        for number, steps in enumerate(of_process):
            started_ms, messages = at_ms, 0
            for elapsed_ms, more in steps:
                at_ms += elapsed_ms
                messages += more
                latest[process] = reading(messages, at_ms, started_ms=started_ms, process=process)
                sampler.observe(latest.values(), at_ms)
                if number or len(steps) > 1:
                    expected[process] = more * 1000 / elapsed_ms
    if expected:
        assert sampler.total == pytest.approx(sum(expected.values()))
        assert sampler.total == sampler.rate("toy")
    else:
        assert sampler.total is None
    for process in runs:
        assert sampler.process_rate(process) == (
            pytest.approx(expected[process]) if process in expected else None
        )
