"""Ordering: every number once and in order, whatever the bus drops, repeats or announces."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.publish.frames import Head
from penstock.publish.ordering import Ordering, Start, Step

HEAD = Head(1, 1)


class Reader:
    """Follows the steps with a log that has everything."""

    def __init__(self, start: Start = "last") -> None:
        self.ordering = Ordering(start)
        self.got: list[int] = []

    def arrived(self, number: int, *, before: bool = False) -> None:
        self._follow(self.ordering.arrived("t", "s", number, before=before), number)

    def announced(self, last: int, head: Head = HEAD) -> None:
        self._follow(self.ordering.announced("t", "s", last, head), 0)

    def _follow(self, step: Step, number: int) -> None:
        if step.missing is not None:
            first, last = step.missing
            assert first <= last
            self.got += range(first, last + 1)
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

    assert ordering.arrived("t", "other", 1) == Step(None, deliver=True)
    assert ordering.arrived("other", "s", 1) == Step(None, deliver=True)
    assert ordering.arrived("t", "s", 7) == Step((6, 6), deliver=True)


def test_a_log_begun_anew_is_followed_from_its_first_number() -> None:
    reader = Reader()
    reader.arrived(500)
    reader.announced(500, Head(1, 1))

    reader.announced(2, Head(2, 1))
    reader.arrived(3)

    assert reader.got == [500, 1, 2, 3]


def test_a_late_word_of_an_earlier_process_changes_nothing() -> None:
    reader = Reader()
    reader.arrived(500)
    reader.announced(500, Head(2, 1))

    reader.announced(400, Head(1, 1))
    reader.arrived(450)
    reader.arrived(501)

    assert reader.got == [500, 501]
