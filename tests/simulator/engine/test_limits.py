"""Limits against brute-force recounts, and the policy of refusals and bans."""

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config import Simulator
from penstock.errors import ConfigError
from penstock.simulator.engine.limits import RequestLimiter, Verdict
from penstock.simulator.engine.rules import BanPolicy, LimitTarget, Rule, replaced

MINUTE = Rule("weight", "aligned", 60_000, 6000, "ip", "weight")
RAW = Rule("raw", "aligned", 300_000, 61_000, "ip", "request")
CONNECT = Rule("connect", "aligned", 300_000, 3, "ip", "connect")
PER_SECOND = Rule("messages", "sliding", 1000, 5, "connection", "message")
LENIENT = BanPolicy(refusals_before_ban=1_000_000, first_ban_ms=1, longest_ban_ms=1)
STRICT = BanPolicy(refusals_before_ban=2, first_ban_ms=1000, longest_ban_ms=3000)
IP = "127.0.0.1"


def test_the_241st_request_of_weight_25_is_refused_and_still_adds_weight() -> None:
    limiter = RequestLimiter([MINUTE, RAW], LENIENT)

    verdicts = [limiter.admit(IP, "/trades", 25, 60_000 + i) for i in range(241)]

    assert [v.admitted for v in verdicts] == [True] * 240 + [False]
    assert verdicts[-1].used == {"weight": 6025, "raw": 241}
    assert verdicts[-1].broken == MINUTE
    assert verdicts[-1].status == 429


@pytest.mark.parametrize(("at_ms", "seconds"), [(60_000, 60), (60_001, 60), (119_999, 1)])
def test_retry_after_counts_whole_seconds_to_the_end_of_the_window(
    at_ms: int, seconds: int
) -> None:
    limiter = RequestLimiter([MINUTE], LENIENT)

    refused = limiter.admit(IP, "/depth", 6001, at_ms)

    assert refused.retry_after_s == seconds
    assert limiter.admit(IP, "/depth", 1, at_ms - at_ms % 60_000 + 60_000).admitted


def test_the_rule_with_the_longest_wait_is_the_one_named() -> None:
    short = Rule("short", "aligned", 1000, 1, "ip", "request")
    long = Rule("long", "aligned", 10_000, 1, "ip", "weight")
    limiter = RequestLimiter([short, long], LENIENT)
    limiter.admit(IP, "/", 1, 500)

    assert limiter.admit(IP, "/", 1, 600).broken == long
    assert limiter.admit(IP, "/", 1, 1600).broken == long


def test_addresses_are_counted_apart() -> None:
    limiter = RequestLimiter([MINUTE], LENIENT)

    assert not limiter.admit("10.0.0.1", "/", 6001, 0).admitted
    assert limiter.admit("10.0.0.2", "/", 6000, 0).admitted
    assert limiter.used(0) == {"weight": 6001}


def test_going_on_after_the_allowed_refusals_begins_a_ban_and_each_further_ban_doubles() -> None:
    limiter = RequestLimiter([Rule("r", "aligned", 10_000, 1, "ip", "request")], STRICT)

    statuses = [limiter.admit(IP, "/", 1, at_ms).status for at_ms in range(5)]
    assert statuses == [200, 429, 429, 418, 418]
    assert limiter.banned(4) == {IP: 1003}

    lengths = []
    for window in range(1, 5):
        verdicts = [limiter.admit(IP, "/", 1, window * 10_000 + i) for i in range(4)]
        assert [v.status for v in verdicts] == [200, 429, 429, 418]
        assert verdicts[3].banned_until_ms is not None
        lengths.append(verdicts[3].banned_until_ms - verdicts[3].at_ms)
    assert lengths == [2000, 3000, 3000, 3000]


def test_going_on_during_a_ban_does_not_lengthen_it() -> None:
    limiter = RequestLimiter([Rule("r", "aligned", 10_000, 1, "ip", "request")], STRICT)
    for at_ms in range(4):
        limiter.admit(IP, "/", 1, at_ms)

    during = [limiter.admit(IP, "/", 1, at_ms) for at_ms in (10, 500, 1002)]

    assert [v.banned_until_ms for v in during] == [1003, 1003, 1003]
    assert during[-1].retry_after_s >= 1
    assert limiter.banned(1003) == {}


def test_a_ban_refuses_even_what_would_fit_and_also_connections() -> None:
    limiter = RequestLimiter([Rule("r", "aligned", 1000, 1, "ip", "request"), CONNECT], STRICT)
    for at_ms in range(996, 1000):
        limiter.admit(IP, "/", 1, at_ms)

    banned = limiter.admit(IP, "/", 1, 1500)

    assert (banned.status, banned.broken) == (418, None)
    assert limiter.connect(IP, "/ws", 1500).status == 418
    assert limiter.admit(IP, "/", 1, 2500).admitted


def test_forgiving_ends_every_ban() -> None:
    limiter = RequestLimiter([Rule("r", "aligned", 1000, 1, "ip", "request")], STRICT)
    for at_ms in range(4):
        limiter.admit(IP, "/", 1, at_ms)

    limiter.unban()

    assert limiter.banned(5) == {}
    assert limiter.admit(IP, "/", 1, 1000).admitted


def test_offences_outside_the_rules_lead_to_a_ban_as_well() -> None:
    limiter = RequestLimiter([MINUTE], STRICT)

    assert [limiter.offend(IP, at_ms) for at_ms in range(3)] == [None, None, 1002]
    assert limiter.admit(IP, "/", 1, 3).status == 418


def test_connections_beyond_the_limit_are_refused_and_cost_no_weight() -> None:
    limiter = RequestLimiter([MINUTE, CONNECT], LENIENT)

    verdicts = [limiter.connect(IP, "/ws", 10) for _ in range(4)]

    assert [v.status for v in verdicts] == [200, 200, 200, 429]
    assert verdicts[-1].broken == CONNECT
    assert limiter.used(10) == {"weight": 0, "connect": 4}


def test_messages_are_counted_per_connection_and_forgotten_with_it() -> None:
    limiter = RequestLimiter([PER_SECOND], LENIENT)

    assert [limiter.message(1, 100) for _ in range(6)] == [True] * 5 + [False]
    assert limiter.message(2, 100)
    assert not limiter.message(1, 1099)

    limiter.forget(1)
    assert limiter.message(1, 1099)


def test_a_changed_limit_holds_at_once_for_what_is_already_used() -> None:
    limiter = RequestLimiter([MINUTE], LENIENT)
    limiter.admit(IP, "/", 3000, 0)

    limiter.change("weight", 3000)

    refused = limiter.admit(IP, "/", 1, 1)
    assert refused.broken is not None
    assert refused.broken.limit == 3000
    assert limiter.rules[0].limit == 3000


def test_the_log_holds_every_arrival_and_is_bounded() -> None:
    limiter = RequestLimiter([MINUTE, CONNECT], LENIENT, remembered=3)
    for weight in (1, 2, 3):
        limiter.admit(IP, "/klines", weight, 60_000)
    limiter.connect(IP, "/ws", 60_001)

    arrivals = limiter.arrivals().rows

    assert [(a.seq, a.unit, a.weight, a.used_after, a.window) for a in arrivals] == [
        (2, "request", 2, 3, 1),
        (3, "request", 3, 6, 1),
        (4, "connect", 0, 1, 0),
    ]
    assert [a.seq for a in limiter.arrivals(after_seq=3).rows] == [4]


class _Step(NamedTuple):
    pause_ms: int
    weight: int


class _Past(NamedTuple):
    at_ms: int
    cost: int


def _aligned(rule: Rule, past: list[_Past], at_ms: int) -> Fraction:
    window = at_ms // rule.period_ms
    return Fraction(sum(p.cost for p in past if p.at_ms // rule.period_ms == window))


def _sliding(rule: Rule, past: list[_Past], at_ms: int) -> Fraction:
    return Fraction(sum(p.cost for p in past if p.at_ms > at_ms - rule.period_ms))


def _bucket(rule: Rule, past: list[_Past], at_ms: int) -> Fraction:
    level, since_ms = Fraction(0), 0
    for p in [*past, _Past(at_ms, 0)]:
        drained = Fraction((p.at_ms - since_ms) * rule.limit, rule.period_ms)
        level, since_ms = max(Fraction(0), level - drained) + p.cost, p.at_ms
    return level


Recount = Callable[[Rule, list[_Past], int], Fraction]

RECOUNTS: list[tuple[Rule, Recount]] = [
    (Rule("a", "aligned", 700, 12, "ip", "weight"), _aligned),
    (Rule("s", "sliding", 700, 12, "ip", "weight"), _sliding),
    (Rule("b", "bucket", 700, 12, "ip", "weight"), _bucket),
    (Rule("a2", "aligned", 300, 5, "ip", "request", counts_refused=False), _aligned),
    (Rule("s2", "sliding", 300, 5, "ip", "request", counts_refused=False), _sliding),
    (Rule("b2", "bucket", 300, 5, "ip", "request", counts_refused=False), _bucket),
]

STEPS = st.lists(st.builds(_Step, st.integers(0, 250), st.integers(0, 14)), min_size=1, max_size=40)


@given(st.lists(st.sampled_from(RECOUNTS), min_size=1, unique=True), STEPS)
def test_every_kind_of_rule_agrees_with_a_recount_from_scratch(
    chosen: list[tuple[Rule, Recount]], steps: list[_Step]
) -> None:
    limiter = RequestLimiter([rule for rule, _ in chosen], LENIENT)
    past: dict[str, list[_Past]] = {rule.name: [] for rule, _ in chosen}
    at_ms = 5000
    for step in steps:
        at_ms += step.pause_ms
        cost = {"weight": step.weight, "request": 1}
        fits = all(
            recount(rule, past[rule.name], at_ms) + cost[rule.unit] <= rule.limit
            for rule, recount in chosen
        )
        verdict = limiter.admit(IP, "/", step.weight, at_ms)
        for rule, _ in chosen:
            if fits or rule.counts_refused:
                past[rule.name].append(_Past(at_ms, cost[rule.unit]))
        assert verdict.admitted == fits
        for rule, recount in chosen:
            used = recount(rule, past[rule.name], at_ms)
            assert verdict.used[rule.name] == -(-used.numerator // used.denominator)


@given(st.sampled_from(RECOUNTS), STEPS)
def test_whoever_waits_as_told_is_admitted_and_no_earlier_millisecond_would_do(
    chosen: tuple[Rule, Recount], steps: list[_Step]
) -> None:
    rule, recount = chosen
    limiter = RequestLimiter([rule], LENIENT)
    past: list[_Past] = []
    at_ms = 5000
    for step in steps:
        at_ms += step.pause_ms
        cost = min(rule.limit, step.weight) if rule.unit == "weight" else 1
        verdict: Verdict = limiter.admit(IP, "/", min(rule.limit, step.weight), at_ms)
        if verdict.admitted or rule.counts_refused:
            past.append(_Past(at_ms, cost))
        if verdict.admitted or rule.counts_refused:
            continue
        waits = range(1, verdict.retry_after_s * 1000 + 1)
        fitting = [w for w in waits if recount(rule, past, at_ms + w) + cost <= rule.limit]
        assert fitting, "the wait told must suffice"
        assert verdict.retry_after_s == -(-fitting[0] // 1000)


def test_a_rule_of_a_group_counts_only_that_group() -> None:
    candles = Rule("candles", "sliding", 1000, 1, "ip", "request", group="candles")
    overall = Rule("overall", "sliding", 1000, 3, "ip", "request")
    limiter = RequestLimiter([candles, overall], None)

    first = limiter.admit(IP, "/candles", 1, 0, LimitTarget("candles"))
    others = [limiter.admit(IP, "/trades", 1, 0, LimitTarget("trades")) for _ in range(2)]

    assert first.left == {"candles": 0, "overall": 2}
    assert [verdict.left for verdict in others] == [{"overall": 1}, {"overall": 0}]
    assert limiter.admit(IP, "/candles", 1, 999, LimitTarget("candles")).broken == candles


def test_without_a_policy_nobody_is_ever_banned() -> None:
    limiter = RequestLimiter([Rule("r", "aligned", 10_000, 1, "ip", "request")], None)

    verdicts = [limiter.admit(IP, "/", 1, 5) for _ in range(100)]

    assert {verdict.status for verdict in verdicts[1:]} == {429}
    assert limiter.offend(IP, 5) is None


def test_a_lazy_bucket_lets_a_burst_through_and_then_its_rate() -> None:
    bucket = Rule("b", "bucket", 1500, 15, "ip", "request", counts_refused=False)
    limiter = RequestLimiter([bucket], None)

    admitted = [ms for ms in range(3000) if limiter.admit(IP, "/", 1, ms).admitted]

    assert len([ms for ms in admitted if ms < 15]) == 15
    assert admitted[15:] == list(range(100, 3000, 100))


def test_an_operator_puts_other_limits_in_the_place_of_the_exchanges() -> None:
    settings = Simulator(limits={"weight": "5/0.5", "connect": "7/60s"})

    rules = replaced([MINUTE, CONNECT], settings)

    assert rules[0] == Rule("weight", "aligned", 500, 5, "ip", "weight")
    assert (rules[1].limit, rules[1].period_ms) == (7, 60_000)


@pytest.mark.parametrize("text", ["0/1", "5", "5/0", "-1/1", "five/1", "5/1m"])
def test_what_is_no_limit_is_refused_with_the_names_there_are(text: str) -> None:
    with pytest.raises(ConfigError, match="for weight, connect"):
        replaced([MINUTE, CONNECT], Simulator(limits={"weight": text}))


def test_a_limit_of_no_rule_is_refused() -> None:
    with pytest.raises(ConfigError, match="wieght=5/1 is not allowed"):
        replaced([MINUTE], Simulator(limits={"wieght": "5/1"}))
