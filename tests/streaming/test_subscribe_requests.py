"""Asking: within the exchange's limits, and however an exchange answers, it is understood."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from penstock.books.rules import BookRules
from penstock.market.symbol import Symbol
from penstock.streaming.dialect import Received, StreamLimits
from penstock.streaming.subscribe_requests import ACK_WITHIN_NS, SECOND_NS, SubscribeRequests


class Words:
    """A dialect that only words messages."""

    limits = StreamLimits(
        streams_per_connection=10, names_per_message=2, messages_per_second=5,
        connects=300, connects_period_s=300.0, lifetime_s=None, heartbeat_s=20.0,
    )  # fmt: skip
    books = BookRules()
    channels: Sequence[str] = ()

    def url(self, base: str) -> str:
        return base

    def streams(self, channel: str, symbols: Sequence[Symbol]) -> list[str]:
        return [f"{channel}:{symbol}" for symbol in symbols]

    def subscribe(self, names: Sequence[str], request_id: int) -> str:
        return f"{request_id}+{','.join(names)}"

    def unsubscribe(self, names: Sequence[str], request_id: int) -> str:
        return f"{request_id}-{','.join(names)}"

    def read(self, frame: bytes | str, received_at_ns: int) -> list[Received]:
        return []


def asked(*names: str) -> SubscribeRequests:
    requests = SubscribeRequests(Words())
    requests.ask(names)
    at_ns = 0
    while (next_ns := requests.next_ns()) is not None and next_ns < ACK_WITHIN_NS:
        at_ns = max(at_ns, next_ns)
        requests.take_due(at_ns)
    return requests


def test_messages_are_short_and_evenly_spaced() -> None:
    requests = SubscribeRequests(Words())
    requests.ask(["a", "b", "c"])

    assert requests.take_due(0) == [("1+a,b", ("a", "b"))]
    assert requests.take_due(SECOND_NS // 4 - 1) == []
    assert requests.next_ns() == SECOND_NS // 4
    assert requests.take_due(SECOND_NS // 4) == [("2+c", ("c",))]
    assert requests.next_ns() == ACK_WITHIN_NS


def test_an_answer_to_a_message_settles_all_of_it() -> None:
    requests = asked("a", "b")
    assert not requests.settled

    assert set(requests.answered(1, ())) == {"a", "b"}
    assert requests.settled
    assert requests.answered(1, ()) == ()


def test_answers_may_come_stream_by_stream() -> None:
    requests = asked("a", "b")
    assert requests.answered(1, ("a",)) == ("a",)
    assert not requests.settled
    requests.answered(1, ("b",))

    assert requests.settled


def test_an_answer_without_a_number_settles_the_streams_it_lists() -> None:
    requests = asked("a", "b", "c")
    requests.answered(None, ("a", "b", "and others"))
    assert not requests.settled
    requests.answered(None, ("a", "b", "c"))

    assert requests.settled


def test_a_message_nobody_answers_means_a_useless_connection() -> None:
    requests = asked("a", "b")
    assert not requests.overdue(ACK_WITHIN_NS - 1).silent
    assert requests.overdue(ACK_WITHIN_NS).silent


def test_a_stream_that_alone_is_not_answered_is_asked_for_once_more_and_then_given_up() -> None:
    requests = asked("a", "b")
    requests.answered(1, ("a",))
    overdue = requests.overdue(ACK_WITHIN_NS)
    assert (overdue.silent, overdue.given_up) == (False, ())
    assert requests.take_due(ACK_WITHIN_NS) == [("2+b", ("b",))]
    again = requests.overdue(2 * ACK_WITHIN_NS)

    assert (again.silent, again.given_up) == (False, ("b",))
    assert requests.settled


def test_a_stream_is_subscribed_again_by_ending_it_first() -> None:
    requests = asked("a")
    requests.answered(1, ())
    requests.resubscribe("a")
    at_ns = 10 * SECOND_NS
    texts = [text for n in range(2) for text, _ in requests.take_due(at_ns + n * SECOND_NS)]

    assert texts == ["2-a", "3+a"]
    requests.answered(2, ())
    assert not requests.settled, "only the second answer counts"
    requests.answered(3, ("a",))
    assert requests.settled


def test_what_is_not_answered_yet_is_pending() -> None:
    requests = SubscribeRequests(Words())
    requests.ask(["a", "b", "c"])
    assert requests.pending() == ["a", "b", "c"]
    requests.take_due(0)
    requests.answered(1, ("a",))
    assert sorted(requests.pending()) == ["b", "c"]
    requests.take_due(SECOND_NS)
    requests.answered(2, ())
    assert requests.pending() == ["b"]


def test_streams_that_are_ended_are_neither_waited_for_nor_asked_for_again() -> None:
    requests = SubscribeRequests(Words())
    requests.ask(["a", "b", "c", "d"])
    requests.ask_later(["e", "f"], 9 * SECOND_NS)
    requests.take_due(0)
    requests.end(["b", "c", "d", "e"])
    sent = [text for each in range(1, 9) for text, _ in requests.take_due(each * SECOND_NS)]

    assert sent == ["2+c,d", "3-b,c", "4-d,e"], "what was worded already is sent, then ended"
    assert requests.pending() == ["a"]
    assert requests.overdue(ACK_WITHIN_NS).silent, "that b was ended is no answer for a"
    assert requests.take_due(9 * SECOND_NS) == [("5+f", ("f",))]


def test_a_new_connection_forgets_what_the_old_one_was_asked() -> None:
    requests = asked("a", "b")
    requests.ask(["c"])
    requests.clear(7)

    assert requests.settled
    assert requests.next_ns() is None
    requests.ask(["d"])
    assert requests.take_due(6) == []
    assert len(requests.take_due(7)) == 1


@given(
    st.lists(st.sampled_from("abcdefg"), unique=True, min_size=1),
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["", *"abcdefg"])), max_size=20),
)
def test_it_is_settled_when_every_stream_was_answered_and_not_before(
    names: list[str], answers: list[tuple[int, str]]
) -> None:
    requests = asked(*names)
    request_of = {name: at // 2 + 1 for at, name in enumerate(names)}
    open_names = set(names)
    for number, name in answers:
        requests.answered(number or None, (name,) if name else ())
        open_names -= {
            each
            for each in open_names
            if (not name and request_of[each] == number)
            or (name == each and number in (0, request_of[each]))
        }
        assert requests.settled == (not open_names)
