"""Counting answers: a request is answered when there are as many answers as it has streams."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.streaming.counting import AckCounts

KEY = "subscribe-book"


def test_the_last_of_as_many_answers_as_streams_answers_all_of_them() -> None:
    counts = AckCounts()
    counts.ask(KEY, ["a", "b", "c"])
    counts.ask(KEY, ["d"])
    counts.ask("subscribe-trade", ["e"])

    assert [counts.unnamed(KEY) for _ in range(4)] == [(), (), ("a", "b", "c"), ("d",)]
    assert counts.unnamed("subscribe-trade") == ("e",)
    assert counts.unnamed(KEY) == (), "an answer to nothing is none"


def test_answers_that_name_their_stream_are_not_counted_again() -> None:
    counts = AckCounts()
    counts.ask(KEY, ["a", "b", "c"])
    counts.named(KEY, "b")
    counts.named(KEY, "unheard of")

    assert [counts.unnamed(KEY), counts.unnamed(KEY)] == [(), ("a", "c")]


def test_asked_for_again_a_stream_is_waited_for_once() -> None:
    counts = AckCounts()
    counts.ask(KEY, ["a", "b"])
    counts.ask(KEY, ["b"])  # the connection was lost in between

    assert [counts.unnamed(KEY), counts.unnamed(KEY), counts.unnamed(KEY)] == [("a",), ("b",), ()]


@given(st.lists(st.sets(st.integers(0, 20), min_size=1), max_size=10))
def test_every_stream_is_answered_once_by_as_many_answers_as_there_are(
    requests: list[set[int]],
) -> None:
    counts, asked = AckCounts(), set[int]()
    for names in requests:
        fresh = names - asked
        if fresh:
            counts.ask(KEY, [str(each) for each in fresh])
        asked |= fresh
    answered = [name for _ in asked for name in counts.unnamed(KEY)]

    assert sorted(answered) == sorted(str(each) for each in asked)
    assert counts.unnamed(KEY) == ()
