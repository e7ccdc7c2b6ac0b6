"""The exchange's clock: bounds always hold the truth, and many answers narrow them."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.throttle.offset import Offset, narrowed, seen, step_ms


def test_one_answer_is_bounded_by_its_round_trip() -> None:
    offset = seen(1_000_500, resolution_ms=1, sent_ms=1_000_000, received_ms=1_000_100)

    assert (offset.low_ms, offset.high_ms) == (400, 501)
    assert offset.middle_ms == 450.5
    assert offset.error_ms == 50.5


def test_a_clock_that_was_set_is_believed_once_a_second_answer_agrees() -> None:
    known = narrowed(Offset(0, 10, at_ms=0), Offset(900, 950, at_ms=10))
    assert (known.low_ms, known.high_ms) == (0, 10)

    after = narrowed(known, Offset(920, 960, at_ms=20))
    assert (round(after.low_ms), round(after.high_ms)) == (920, 950)
    assert step_ms(known, after) == 930
    assert step_ms(after, narrowed(after, Offset(900, 940, at_ms=30))) == 0


def test_a_single_wrong_answer_changes_nothing() -> None:
    known = narrowed(Offset(0, 10, at_ms=0), Offset(600_000, 600_050, at_ms=10))
    known = narrowed(known, Offset(0, 5, at_ms=20))
    assert (known.low_ms, round(known.high_ms), known.doubt) == (0, 5, None)

    other = narrowed(known, Offset(600_000, 600_050, at_ms=30))
    assert other.high_ms < 600_000, "what was doubted before is not remembered"


def test_two_answers_that_contradict_each_other_too_are_both_doubted() -> None:
    known = narrowed(Offset(0, 10, at_ms=0), Offset(600_000, 600_050, at_ms=10))
    known = narrowed(known, Offset(-900, -800, at_ms=20))
    assert (known.low_ms, known.high_ms) == (0, 10)


def test_old_bounds_widen_by_what_clocks_drift() -> None:
    old = Offset(0, 10, at_ms=0)
    hour = narrowed(old, Offset(-5000, 5000, at_ms=3_600_000))

    assert (hour.low_ms, hour.high_ms) == (-180, 190)


@given(
    true_ms=st.integers(-5000, 5000),
    trips=st.lists(
        st.tuples(st.integers(1, 5000), st.integers(0, 200), st.integers(0, 200), st.booleans()),
        min_size=1,
        max_size=50,
    ),
)
def test_the_truth_is_never_outside_the_bounds(
    true_ms: int, trips: list[tuple[int, int, int, bool]]
) -> None:
    now_ms, known = 1_700_000_000_000, None
    for pause_ms, there_ms, back_ms, whole_seconds in trips:
        now_ms += pause_ms
        resolution_ms = 1000 if whole_seconds else 1
        shown_ms = (now_ms + there_ms + true_ms) // resolution_ms * resolution_ms
        answer = seen(shown_ms, resolution_ms, now_ms, now_ms + there_ms + back_ms)
        known = narrowed(known, answer)
        assert known.low_ms <= true_ms <= known.high_ms
        assert known.error_ms <= answer.error_ms


def test_whole_seconds_from_many_answers_narrow_to_a_round_trip() -> None:
    known = None
    for n in range(100):
        now_ms = 1_700_000_000_000 + n * 1037
        shown_ms = (now_ms + 10 + 250) // 1000 * 1000
        known = narrowed(known, seen(shown_ms, 1000, now_ms, now_ms + 20))

    assert known is not None
    assert known.error_ms < 30
    assert abs(known.middle_ms - 250) < 30
