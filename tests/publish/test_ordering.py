"""Ordering: every number once and in order, whatever the bus drops, repeats or announces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.publish.frames import Head
from penstock.publish.ordering import FARTHEST, FrameDecision, Ordering, Start

HEAD = Head(1, 1)
EVER = 1 << 63


class Reader:
    """Follows the steps with a log that has everything that was written, or nothing."""

    def __init__(self, start: Start = "last", *, last: int = EVER, log: bool = True) -> None:
        self.ordering = Ordering(start)
        self.got: list[int] = []
        self.last, self.log = last, log
        """What was really written."""

    def arrived(self, number: int, *, before: bool = False) -> None:
        self._follow(self.ordering.arrived("t", "s", number, before=before), number)

    def announced(self, last: int, head: Head = HEAD) -> None:
        self._follow(self.ordering.announced("t", "s", last, head), 0)

    def _follow(self, step: FrameDecision, number: int) -> None:
        if step.missing is not None:
            first, last = step.missing
            assert first <= last
            found = range(first, min(last, self.last) + 1) if self.log else ()
            for each in found:
                self.ordering.filled("t", "s", each)
            self.got += found
        if step.deliver:
            self.got.append(number)


# How often each message is brought, and whether an announcement follows.
FATES = st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=60)


@given(FATES, st.integers(1, 1000), st.sampled_from(["last", "now"]))
def test_the_numbers_are_without_a_hole_and_without_a_repeat(
    fates: list[tuple[int, bool]], first: int, start: Start
) -> None:
    reader = Reader(start)
    reader.arrived(first - 1, before=True)
    for number, (times, announced) in enumerate(fates, first):
        for _ in range(times):
            reader.arrived(number)
        if announced:
            reader.announced(number)
    last = first + len(fates) - 1
    reader.announced(last)

    assert reader.got == list(range(first - (start == "last"), last + 1))


def test_a_lost_tail_is_missed_when_it_is_announced() -> None:
    reader = Reader()
    reader.arrived(5)

    reader.announced(5)
    assert reader.got == [5]
    reader.announced(8)
    assert reader.got == [5, 6, 7, 8]


def test_one_begins_with_the_last_there_is() -> None:
    brought, announced = Reader("last"), Reader("last")
    brought.arrived(9, before=True)
    announced.announced(9)

    assert brought.got == announced.got == [9]


def test_one_begins_with_what_comes_from_now_on() -> None:
    brought, announced, live = Reader("now"), Reader("now"), Reader("now")
    brought.arrived(9, before=True)
    announced.announced(9)
    live.arrived(9)
    for each in (brought, announced, live):
        each.arrived(10)

    assert brought.got == announced.got == [10]
    assert live.got == [9, 10]


def test_one_begins_with_a_number() -> None:
    behind, ahead = Reader(7), Reader(12)
    for each in (behind, ahead):
        each.arrived(9, before=True)
        each.announced(10)
        each.announced(10, Head(2, 1))
        each.arrived(13)

    assert behind.got == [7, 8, 9, 10, 11, 12, 13]
    assert ahead.got == [12, 13]


def test_a_stream_that_never_spoke_is_delivered_from_its_first_number() -> None:
    reader = Reader()
    reader.announced(0)
    reader.arrived(2)

    assert reader.got == [1, 2]


def test_topics_and_slots_are_counted_apart() -> None:
    ordering = Ordering()
    ordering.arrived("t", "s", 5)

    assert ordering.arrived("t", "other", 1) == FrameDecision(None, deliver=True)
    assert ordering.arrived("other", "s", 1) == FrameDecision(None, deliver=True)
    assert ordering.arrived("t", "s", 7) == FrameDecision((6, 6), deliver=True)


def test_a_log_begun_anew_is_followed_from_its_first_number() -> None:
    reader = Reader()
    reader.arrived(500)
    reader.announced(500, Head(1, 1))

    reader.announced(2, Head(2, 1))
    reader.arrived(3)
    reader.announced(3, Head(2, 1))
    reader.arrived(4)

    assert reader.got == [500, 1, 2, 3, 4]


def test_a_late_word_of_an_earlier_process_changes_nothing() -> None:
    reader = Reader()
    reader.arrived(500)
    reader.announced(500, Head(2, 1))

    reader.announced(400, Head(1, 1))
    reader.arrived(450)
    reader.arrived(501)

    assert reader.got == [500, 501]


def test_one_wrong_number_far_ahead_does_not_touch_the_stream() -> None:
    reader = Reader(last=10)
    reader.arrived(5)
    reader.arrived(1 << 62)
    reader.announced(1 << 62)
    reader.arrived(6)
    reader.announced(6)
    reader.arrived(7)

    assert reader.got == [5, 6, 7]


def test_a_stream_that_is_really_far_ahead_is_followed_once_it_has_said_so_twice() -> None:
    reader = Reader(log=False)
    reader.arrived(5)
    far = 5 + 2 * FARTHEST
    assert reader.ordering.arrived("t", "s", far).doubted
    assert reader.ordering.announced("t", "s", far, HEAD).doubted

    assert reader.ordering.announced("t", "s", far + 10, HEAD).missing == (6, far + 10)
    assert reader.ordering.arrived("t", "s", far + 11) == FrameDecision(None, deliver=True)


@pytest.mark.parametrize("log", [True, False])
def test_a_stream_that_began_with_a_wrong_number_is_followed_from_where_it_is(log: bool) -> None:
    reader = Reader(last=10, log=log)
    reader.arrived(1 << 62, before=True)
    for number in (8, 9):
        reader.arrived(number)
        reader.announced(number)
    reader.arrived(10)

    assert reader.got == [1 << 62, 10]


def test_after_a_wrong_jump_one_goes_back_to_where_it_began_and_repeats_nothing() -> None:
    reader = Reader(last=6)
    reader.arrived(5)
    reader.arrived(50)
    for number in (7, 8):
        reader.last = number
        reader.arrived(number)
        reader.announced(number)
    reader.arrived(9)

    assert reader.got == [5, 6, 50, 7, 8, 9]


def test_a_jump_that_the_log_or_the_slot_confirms_is_not_gone_back_on() -> None:
    for log in (True, False):
        reader = Reader(log=log)
        reader.arrived(5)
        reader.arrived(9)
        reader.announced(9)
        reader.announced(6)  # late
        reader.arrived(10)

        assert reader.got == ([5, 6, 7, 8, 9, 10] if log else [5, 9, 10])


forged = st.tuples(
    st.sampled_from(["record", "head"]),
    st.one_of(st.integers(0, 40), st.integers(0, EVER - 1)),
    st.integers(0, EVER - 1),
)


@given(FATES, st.dictionaries(st.integers(0, 59), forged, max_size=20), st.booleans())
def test_after_wrong_frames_every_number_comes_again(
    fates: list[tuple[int, bool]], wrong: dict[int, tuple[str, int, int]], log: bool
) -> None:
    """However many there are: the slot goes on, announces itself, and is followed again."""
    reader = Reader(last=0, log=log)
    reader.arrived(1)
    for number, (times, announced) in enumerate(fates, 2):
        reader.last = number
        for _ in range(times):
            reader.arrived(number)
        if number in wrong:
            kind, forged_number, run = wrong[number]
            if kind == "record":
                reader.arrived(forged_number)
            else:
                reader.announced(forged_number, Head(run, 1))
        if announced:
            reader.announced(number)
    last = len(fates) + 1
    for number in range(last + 1, last + 4):
        reader.last = number
        reader.arrived(number)
        reader.announced(number)
    del reader.got[:]
    for number in range(last + 4, last + 8):
        reader.arrived(number)

    assert reader.got == list(range(last + 4, last + 8))


@given(FATES, st.integers(2, 61), st.integers(FARTHEST + 100, EVER - 1), st.sampled_from("rh"))
def test_one_wrong_number_far_ahead_costs_nothing_and_repeats_nothing(
    fates: list[tuple[int, bool]], at: int, wrong: int, kind: str
) -> None:
    reader = Reader(last=1)
    reader.arrived(1)
    for number, (times, announced) in enumerate(fates, 2):
        reader.last = number
        for _ in range(times):
            reader.arrived(number)
        if number == at and kind == "r":
            reader.arrived(wrong)
        elif number == at:
            reader.announced(wrong, Head(EVER - 1, 1))
        if announced:
            reader.announced(number)
    last = len(fates) + 1
    reader.announced(last)

    assert reader.got == list(range(1, last + 1))
