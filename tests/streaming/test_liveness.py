"""When a silence is long for a stream that usually speaks, and when it is just quiet."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.streaming.liveness import SECOND_NS, Liveness

DAY_S = 86_400.0
HOUR_S = 3600.0
GRACE_NS = 2 * SECOND_NS


def poisson(rate: float) -> Callable[[Random], float]:
    # What comes within a tenth of a second is one arrival: more of it would only take time.
    if rate > 20:
        return lambda random: 0.1 + random.expovariate(rate)
    return lambda random: random.expovariate(rate)


class Lived:
    """A stream that is alive, watched by somebody whose looks tell the truth.

    The exchange knows of everything up to three seconds before the stream brings it. A look that
    falls in between finds news; an alarm is one after which nothing came within the grace.
    """

    def __init__(self, gap_s: Callable[[Random], float], length_s: float, seed: int) -> None:
        self.probes = self.alarms = 0
        self.live = Liveness[str]()
        self.live.expect(["it"], 0)
        self.last_ns, end_ns, random = 0, round(length_s * SECOND_NS), Random(seed)
        while self.last_ns < end_ns:
            next_ns = self.last_ns + round(gap_s(random) * SECOND_NS)
            if next_ns - self.last_ns > 9 * SECOND_NS:
                self.be_silent_until(next_ns, lag_ns=round(random.random() * 3 * SECOND_NS))
            self.last_ns = next_ns
            self.live.heard("it", next_ns)

    def be_silent_until(self, next_ns: int, lag_ns: int = 0) -> None:
        while (due_ns := self.live.next_ns()) is not None and due_ns < next_ns:
            assert self.live.suspects(due_ns)
            self.probes += 1
            if due_ns < next_ns - lag_ns:
                self.live.clear("it", due_ns)
            elif due_ns + GRACE_NS < next_ns:
                self.alarms += 1
                self.live.confirm("it", due_ns + GRACE_NS)


@pytest.mark.parametrize("rate", [0.01, 0.03, 0.1, 0.3, 1.0])
def test_a_stream_that_is_alive_is_probed_about_once_a_day(rate: float) -> None:
    seeds = range(8) if rate < 0.3 else range(2)
    days = [Lived(poisson(rate), DAY_S, seed) for seed in seeds]

    assert sum(day.alarms for day in days) < len(days)
    assert sum(day.probes for day in days) <= 3 * len(days)
    assert max(day.probes for day in days) <= 6


@pytest.mark.long
@pytest.mark.parametrize("rate", [3.0, 10.0, 100.0, 1000.0])
def test_a_busy_stream_is_not_probed_all_day(rate: float) -> None:
    assert Lived(poisson(rate), DAY_S, 1).probes == 0


@given(power=st.floats(-2.0, 3.0), seed=st.integers(0, 2**32))
def test_no_rate_makes_for_many_probes(power: float, seed: int) -> None:
    rate = 10.0**power
    lived = Lived(poisson(rate), min(DAY_S, 5000 / rate), seed)

    assert lived.probes <= 12
    assert lived.alarms <= 1


@given(rate=st.floats(2.0, 1000.0), seed=st.integers(0, 2**32))
@settings(max_examples=20)
def test_a_busy_stream_that_stalls_is_suspect_after_ten_seconds(rate: float, seed: int) -> None:
    lived = Lived(poisson(rate), 300.0, seed)

    assert lived.probes == 0
    assert lived.live.next_ns() == lived.last_ns + 10 * SECOND_NS


def test_bursts_minutes_apart_are_soon_no_longer_suspect() -> None:
    def gap_s(random: Random) -> float:
        return random.expovariate(5.0) if random.random() < 0.99 else 600 + random.random()

    first, week = Lived(gap_s, DAY_S, 1), Lived(gap_s, 7 * DAY_S, 1)
    assert first.probes <= 30
    assert week.probes <= 30 + 6 * 6


def test_a_market_that_falls_asleep_is_probed_a_few_times_and_left_alone() -> None:
    lived = Lived(poisson(5.0), HOUR_S, 1)
    lived.be_silent_until(lived.last_ns + 8 * 3600 * SECOND_NS)

    assert 8 <= lived.probes <= 13
    lived.live.heard("it", lived.last_ns + 8 * 3600 * SECOND_NS)
    assert lived.live.next_ns() is not None


def test_what_comes_at_once_is_one_arrival() -> None:
    live, now_ns = Liveness[str](), 0
    live.expect(["bursts"], 0)
    for _ in range(40):
        now_ns += 30 * SECOND_NS
        for step in range(50):
            live.heard("bursts", now_ns + step * SECOND_NS // 1000)
    last_ns = now_ns + 49 * SECOND_NS // 1000

    found_ns = live.next_ns()
    assert found_ns is not None
    assert found_ns - last_ns > 200 * SECOND_NS, "two in a minute may well be silent for minutes"


def test_a_market_that_wakes_up_is_soon_judged_by_its_new_pace() -> None:
    live, now_ns = Liveness[str](), 0
    live.expect(["it"], 0)
    for gap_s in [100.0] * 30 + [0.1] * 3000:
        now_ns += round(gap_s * SECOND_NS)
        live.heard("it", now_ns)
        live.next_ns()  # whoever asks often must not be told late for it

    assert live.next_ns() == now_ns + 10 * SECOND_NS


def test_a_stream_that_never_spoke_is_suspect_after_a_while_and_then_ever_more_slowly() -> None:
    live, waits, now_ns = Liveness[str](first_s=60.0), [], 0
    live.expect(["mute"], 0)
    for _ in range(5):
        next_ns = live.next_ns()
        assert next_ns is not None
        (silence,) = live.suspects(next_ns)
        assert (silence.since_ns, silence.rate) == (0, 0.0)
        live.confirm("mute", next_ns)
        waits.append((next_ns - now_ns) / SECOND_NS)
        now_ns = next_ns

    assert waits == [60.0, 120.0, 240.0, 480.0, 960.0]
    assert not live.ever_heard("mute")


def test_a_silence_is_told_once_until_somebody_says_what_came_of_it() -> None:
    live = Liveness[str](first_s=60.0)
    live.expect(["a"], 0)

    assert len(live.suspects(60 * SECOND_NS)) == 1
    assert live.suspects(600 * SECOND_NS) == []
    assert live.next_ns() is None
    live.postpone("a", 600 * SECOND_NS)
    assert live.next_ns() == 660 * SECOND_NS, "it proved nothing: the wait is as long as before"


def test_whoever_speaks_is_no_longer_suspect() -> None:
    live = Liveness[str](first_s=60.0)
    live.expect(["a"], 0)
    live.suspects(60 * SECOND_NS)
    live.heard("a", 61 * SECOND_NS)
    live.clear("a", 62 * SECOND_NS)

    assert live.next_ns() == 121 * SECOND_NS, "the look came too late to mean anything"


def test_nobody_waits_for_what_was_forgotten_or_never_asked_for() -> None:
    live = Liveness[str]()
    live.expect(["a", "b"], 0)
    live.forget("a")
    live.heard("c", SECOND_NS)
    live.clear("c", SECOND_NS)

    assert [each.stream for each in live.suspects(1000 * SECOND_NS)] == ["b"]
    assert "a" not in live
    assert len(live) == 1


steps = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["heard", "clear", "confirm", "postpone", "suspects", "next_ns", "forget"]),
        st.sampled_from([0.001, 0.05, 0.5, 3.0, 9.0, 30.0, 500.0]),
    ),
    max_size=60,
)


@given(steps)
def test_streams_wait_for_nobody_and_none_is_found_late(
    steps: list[tuple[str, str, float]],
) -> None:
    """Three streams together are told as each of them alone would be."""
    together, alone, now_ns = Liveness[str](), {name: Liveness[str]() for name in "abc"}, 0
    for name, what, passed_s in steps:
        now_ns += round(passed_s * SECOND_NS)
        for live in (together, *alone.values()):
            live.expect("abc" if live is together else [*_only(alone, live)], now_ns)
        if what == "suspects":
            told = {each for live in alone.values() for each in live.suspects(now_ns)}
            assert set(together.suspects(now_ns)) == told
        elif what == "forget":
            together.forget(name)
            alone[name].forget(name)
        elif what != "next_ns":
            for live in (together, alone[name]):
                getattr(live, what)(name, now_ns)
        due = [at_ns for live in alone.values() if (at_ns := live.next_ns()) is not None]
        assert together.next_ns() == min(due, default=None)


def _only(alone: dict[str, Liveness[str]], live: Liveness[str]) -> list[str]:
    return [name for name, each in alone.items() if each is live]


@given(st.lists(st.floats(0.0, 400.0), min_size=1, max_size=50))
def test_nothing_is_suspect_before_it_is_said_to_be(gaps_s: list[float]) -> None:
    live, now_ns = Liveness[str](), 0
    live.expect(["a"], 0)
    for gap_s in gaps_s:
        now_ns += round(gap_s * SECOND_NS)
        live.heard("a", now_ns)
        next_ns = live.next_ns()
        assert next_ns is None or next_ns >= now_ns + 10 * SECOND_NS
        if next_ns is not None:
            assert live.suspects(next_ns - 1) == []
