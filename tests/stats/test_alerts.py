"""Alerts: fired once, repeated after the cooldown, resolved once, whatever comes in between."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from penstock.stats.alerts import (
    CLEAR_MS,
    KEPT_MS,
    MOST,
    Alert,
    Condition,
    as_sent,
    evaluate,
    is_outdated,
    newest_first,
    to_send,
)

STEP_MS = 10_000
COOLDOWN_MS = 120_000
GAP = Condition(rule="gaps", subject="toy/trades", message="one gap")


class Sent:
    """What a receiver gets of one condition that is reported in some steps."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.alerts: dict[str, Alert] = {}
        self.messages: list[tuple[int, str]] = []

    def step(self, *, reported: bool, accepts: bool = True) -> None:
        self.now_ms += STEP_MS
        self.alerts |= evaluate(self.alerts, [GAP] if reported else [], self.now_ms)
        for id_, alert in self.alerts.items():
            what = to_send(alert, self.now_ms, COOLDOWN_MS)
            if what is not None and accepts:
                self.messages.append((self.now_ms, what))
                self.alerts[id_] = as_sent(alert, what, self.now_ms)


# Runs of equal steps: a minute without a report resolves, and single steps hardly ever make one.
STEPS = st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(1, 9)), max_size=20).map(
    lambda runs: [step for *step, count in runs for _ in range(count)]
)


@given(STEPS)
def test_what_is_sent_alternates_and_keeps_the_cooldown(steps: list[list[bool]]) -> None:
    sent = Sent()
    for reported, accepts in steps:
        sent.step(reported=reported, accepts=accepts)

    words = [what for _, what in sent.messages]
    assert words[:1] in ([], ["firing"])
    for before, after in itertools.pairwise(words):
        allowed = {"firing": ("still firing", "resolved"), "resolved": ("firing",)}
        assert after in allowed.get(before, ("still firing", "resolved"))
    fired = [at for at, what in sent.messages if what != "resolved"]
    assert all(b - a >= COOLDOWN_MS for a, b in itertools.pairwise(fired))


@given(STEPS)
def test_in_the_end_the_receiver_knows_the_state(steps: list[list[bool]]) -> None:
    for ending in (True, False):
        sent = Sent()
        for reported, accepts in steps:
            sent.step(reported=reported, accepts=accepts)
        for _ in range((COOLDOWN_MS + CLEAR_MS) // STEP_MS + 1):
            sent.step(reported=ending)

        last = sent.messages[-1][1] if sent.messages else "resolved"
        assert (last != "resolved") == ending
        [alert] = sent.alerts.values() or [None]
        assert alert is None or (alert.state == "firing") == ending


def test_what_comes_and_goes_within_a_minute_is_one_alert() -> None:
    sent = Sent()
    for number in range(60):
        sent.step(reported=number % 6 == 0)

    [alert] = sent.alerts.values()
    assert (alert.state, alert.times, alert.since_ms) == ("firing", 1, STEP_MS)


def test_an_alert_that_fires_again_counts_on_and_waits_for_the_cooldown() -> None:
    sent = Sent()
    for reported in (True, *[False] * 6, *[True] * 6):
        sent.step(reported=reported)

    [alert] = sent.alerts.values()
    assert (alert.state, alert.times) == ("firing", 2)
    assert [what for _, what in sent.messages] == ["firing", "resolved", "firing"]
    assert sent.messages[-1][0] == STEP_MS + COOLDOWN_MS


def test_what_was_not_seen_while_nobody_evaluated_is_judged_as_it_is_now() -> None:
    sent = Sent()
    sent.step(reported=True)
    sent.now_ms += 10 * CLEAR_MS
    sent.step(reported=True)

    [alert] = sent.alerts.values()
    assert (alert.state, alert.times) == ("firing", 1)


def test_the_number_of_alerts_is_bounded_and_critical_ones_come_first() -> None:
    many = [Condition(rule="gaps", subject=f"{n:04}", message="") for n in range(MOST + 10)]
    worst = Condition(rule="z", subject="z", message="", severity="critical")

    found = evaluate({}, [*many, worst], 1)

    assert len(found) == MOST
    assert worst.id in found


def test_resolved_ones_are_kept_for_a_week_and_come_after_those_that_fire() -> None:
    old, new = Sent(), Sent()
    old.step(reported=True)
    for _ in range(10):
        old.step(reported=False)
    new.step(reported=True)
    [resolved], [firing] = old.alerts.values(), new.alerts.values()

    assert newest_first([resolved, firing]) == [firing, resolved]
    assert not is_outdated(resolved, resolved.changed_ms + KEPT_MS)
    assert is_outdated(resolved, resolved.changed_ms + KEPT_MS + 1)
    assert not is_outdated(firing, 10 * KEPT_MS)
