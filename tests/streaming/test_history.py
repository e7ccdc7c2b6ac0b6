"""What a connection remembers of itself: bounded, in order, and without breaks that were none."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.streaming.history import KEPT_EVENTS, KEPT_MS, ConnectionEvent, ConnectionHistory

SECOND_NS = 1_000_000_000


def told(history: ConnectionHistory, now_ms: int = 0) -> list[tuple[int, str, str]]:
    return [(each.at_ms, each.what, each.reason) for each in history.events(now_ms)]


def test_an_outage_is_two_events_however_often_it_is_retried() -> None:
    history = ConnectionHistory()
    history.opened(SECOND_NS)
    for attempt in range(500):
        history.closed(f"reason {attempt}", (10 + attempt) * SECOND_NS)
    history.opened(600 * SECOND_NS)

    assert told(history) == [
        (1_000, "opened", ""),
        (10_000, "closed", "reason 0"),
        (509_000, "closed", "reason 499"),
        (600_000, "opened", ""),
    ]
    assert history.reconnects == 500
    assert history.changed_ms == 600_000


def test_a_reason_has_no_password() -> None:
    history = ConnectionHistory()
    history.closed("wss://me:hunter2@proxy does not answer", SECOND_NS)

    assert "hunter2" not in told(history)[0][2]


def test_a_lost_connection_is_down_since_the_first_failure() -> None:
    history = ConnectionHistory()
    history.opened(SECOND_NS)
    history.closed("lost", 5 * SECOND_NS)
    history.closed("refused", 9 * SECOND_NS)

    assert history.changed_ms == 5_000


def test_a_replaced_connection_was_never_down() -> None:
    old, new = ConnectionHistory(), ConnectionHistory()
    old.opened(SECOND_NS)
    old.closed("lost", 2 * SECOND_NS)
    old.opened(3 * SECOND_NS)
    new.opened(100 * SECOND_NS)
    old.closed("the exchange closed it", 101 * SECOND_NS)
    new.replaces(old, "old age")

    assert told(new)[-2:] == [(3_000, "opened", ""), (100_000, "opened", "old age")]
    assert new.reconnects == 2


def test_a_connection_that_was_not_open_yet_does_not_hide_the_break() -> None:
    old, new = ConnectionHistory(), ConnectionHistory()
    old.opened(SECOND_NS)
    old.closed("lost", 5 * SECOND_NS)
    new.replaces(old, "lost")
    new.opened(7 * SECOND_NS)

    assert [what for _, what, _ in told(new)] == ["opened", "closed", "opened"]


@given(
    st.lists(st.tuples(st.integers(1, 10**8), st.sampled_from(["opened", "closed"])), max_size=99)
)
def test_it_is_bounded_by_number_and_by_age(steps: list[tuple[int, str]]) -> None:
    history, now_ms = ConnectionHistory(), 0
    for pause_ms, what in steps:
        now_ms += pause_ms
        if what == "opened":
            history.opened(now_ms * 1_000_000)
        else:
            history.closed("x" * 1_000, now_ms * 1_000_000)
    events = history.events(now_ms)

    assert len(events) <= KEPT_EVENTS
    assert all(now_ms - KEPT_MS < each.at_ms <= now_ms for each in events)
    assert all(len(each.reason) <= 121 for each in events)
    assert events == sorted(events, key=lambda each: each.at_ms)
    assert not steps or events[-1] == ConnectionEvent(now_ms, steps[-1][1], events[-1].reason)  # type: ignore[arg-type]
    assert history.reconnects == sum(what == "closed" for _, what in steps)


@given(st.lists(st.tuples(st.integers(1, 3 * SECOND_NS), st.integers(0, 1_000)), min_size=2))
def test_the_rate_does_not_depend_on_how_often_it_is_read(steps: list[tuple[int, int]]) -> None:
    history, now_ns = ConnectionHistory(), SECOND_NS
    history.opened(now_ns)
    least, most = float("inf"), 0.0
    for pause_ns, messages in steps:
        now_ns += pause_ns
        history.messages += messages
        rate = messages * 1e9 / pause_ns
        least, most = min(least, rate), max(most, rate)
        found = history.per_second(now_ns)
        assert found is None or round(least, 1) - 0.1 <= found <= round(most, 1) + 0.1
    assert (found is None) == (now_ns - SECOND_NS < 2 * SECOND_NS)


def test_a_clock_that_is_set_back_gives_no_wrong_rate() -> None:
    history = ConnectionHistory()
    history.opened(100 * SECOND_NS)
    history.messages = 50

    assert history.per_second(10 * SECOND_NS) is None
    history.messages = 150
    assert history.per_second(20 * SECOND_NS) == 10.0
