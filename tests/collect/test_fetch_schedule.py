"""When a loop asks next: evenly while all goes well, ever more slowly while it does not."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.collect.fetch_schedule import SECOND_NS, FetchSchedule, FetchTiming, Spacing

instants = st.integers(0, 10**15)


@given(instants, st.integers(0, 10**12), st.floats(0.001, 10_000.0))
def test_a_loop_begins_every_so_often_and_at_once_after_an_overrun(
    began_ns: int, took_ns: int, every_s: float
) -> None:
    ended_ns = began_ns + took_ns
    due_ns = FetchSchedule(FetchTiming(every_s)).succeeded(began_ns, ended_ns)

    if took_ns >= every_s * SECOND_NS:
        assert abs(due_ns - ended_ns) <= 1
    else:
        assert abs(due_ns - began_ns - every_s * SECOND_NS) <= 1


@given(instants, st.integers(0, 10**12))
def test_what_is_behind_goes_on_at_once(began_ns: int, took_ns: int) -> None:
    ended_ns = began_ns + took_ns

    assert FetchSchedule(FetchTiming(3600.0)).succeeded(began_ns, ended_ns, more=True) == ended_ns


@given(st.integers(1, 2000), st.floats(0.01, 10.0), st.floats(10.0, 600.0))
def test_delays_double_up_to_the_longest_and_a_success_forgets_them(
    failures: int, first_s: float, longest_s: float
) -> None:
    schedule = FetchSchedule(FetchTiming(60.0, first_s, longest_s))
    waits_ns = [schedule.failed(1_000) - 1_000 for _ in range(failures)]

    assert abs(waits_ns[0] - first_s * SECOND_NS) <= 1
    for before_ns, after_ns in pairwise(waits_ns):
        assert abs(after_ns - min(2 * before_ns, longest_s * SECOND_NS)) <= 2
    schedule.succeeded(0, 1)
    assert schedule.failures == 0
    assert abs(schedule.failed(0) - first_s * SECOND_NS) <= 1


def test_every_failure_in_a_row_is_waited_for_twice_as_long() -> None:
    schedule = FetchSchedule(FetchTiming(60.0, first_delay_s=1.0, longest_delay_s=3.0))

    assert [schedule.failed(0) / SECOND_NS for _ in range(3)] == [1.0, 2.0, 3.0]


@given(
    st.integers(1, 50),
    st.floats(0.1, 100.0),
    st.lists(st.integers(0, 20 * SECOND_NS), min_size=1, max_size=200),
)
def test_no_window_holds_more_requests_than_it_may(
    most: int, window_s: float, pauses_ns: list[int]
) -> None:
    spacing, now_ns, taken_ns = Spacing(most, window_s), 0, list[int]()
    for pause_ns in pauses_ns:
        now_ns += pause_ns
        taken_ns.append(spacing.take(now_ns))
        assert taken_ns[-1] >= now_ns
    window_ns = round(window_s * SECOND_NS)

    for first, last in zip(taken_ns, taken_ns[most:], strict=False):
        assert last - first >= window_ns


@given(st.integers(1, 100), st.floats(0.1, 100.0))
def test_requests_that_come_together_leave_evenly(most: int, window_s: float) -> None:
    spacing = Spacing(most, window_s)
    taken_ns = [spacing.take(5) for _ in range(10)]

    assert taken_ns[0] == 5, "nobody waits for the first"
    spaces_ns = {after - before for before, after in pairwise(taken_ns)}
    assert len(spaces_ns) == 1
    assert abs(spaces_ns.pop() - window_s * SECOND_NS / most) <= 2
