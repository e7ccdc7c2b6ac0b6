"""The circuit breaker: when it opens, that one probe is sent at a time, and how it closes."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.resilience.breaker import (
    Breaker,
    BreakerRules,
    ProbeReport,
    Tally,
    in_flight_limit,
    with_force,
    with_probe,
    with_probe_result,
    with_results,
)

RULES = BreakerRules(cooldown_ms=1000, longest_cooldown_ms=8000, window_ms=10_000, probe_ms=500)
NOW = 1_700_000_000_000


def results(breaker: Breaker, *succeeded: bool, now_ms: int = NOW, draw: float = 0.0) -> Breaker:
    """The breaker after these results, each reported by itself."""
    for each in succeeded:
        tally = Tally().added(each, "500", now_ms, RULES)
        breaker = with_results(breaker, tally, now_ms, RULES, draw)
    return breaker


def opened(now_ms: int = NOW) -> Breaker:
    return results(Breaker(), *[False] * 5, now_ms=now_ms)


def leased(breaker: Breaker, now_ms: int, who: str = "a") -> Breaker:
    found = with_probe(breaker, who, now_ms, RULES)
    assert found is not None
    return found


def finished(breaker: Breaker, report: ProbeReport, now_ms: int) -> Breaker:
    return with_probe_result(breaker, report, now_ms, RULES, 0.0)


def test_five_failures_in_a_row_open_it() -> None:
    assert results(Breaker(), *[False] * 4).phase == "closed"

    breaker = opened()

    assert (breaker.phase, breaker.retry_at_ms) == ("open", NOW + 1000)
    assert breaker.reason == "5 of 5 requests failed, the last: 500"
    assert [each.to for each in breaker.transitions] == ["open"]


def test_a_success_begins_the_row_again() -> None:
    assert results(Breaker(), *[False] * 4, True, *[False] * 4).phase == "closed"


def test_a_few_failures_among_many_successes_do_not_open_it() -> None:
    """With 45 requests in flight, five failures in a row are common."""
    assert results(Breaker(), *[True] * 40, *[False] * 5).phase == "closed"
    assert results(Breaker(), *[True] * 5, *[False] * 5).phase == "open"


def test_results_that_have_left_the_window_do_not_count() -> None:
    many = results(Breaker(), *[True] * 40)

    assert results(many, *[False] * 5, now_ms=NOW + 11_000).phase == "open"


def test_a_minimum_of_requests_is_needed() -> None:
    rules = replace(RULES, min_requests=8)
    breaker = Breaker()
    for count in range(1, 9):
        tally = Tally().added(False, "500", NOW, rules)
        breaker = with_results(breaker, tally, NOW, rules, 0.0)
        assert breaker.phase == ("open" if count == 8 else "closed")


def test_results_of_requests_sent_before_it_opened_change_nothing() -> None:
    breaker = opened()

    assert results(breaker, True, False) == breaker


def test_a_failed_probe_doubles_the_cooldown_up_to_the_cap() -> None:
    breaker, now_ms, waits = opened(), NOW, []
    for _ in range(5):
        now_ms = breaker.retry_at_ms
        breaker = leased(breaker, now_ms)
        breaker = finished(breaker, ProbeReport(breaker.fence, "failed", "502"), now_ms)
        waits.append(breaker.retry_at_ms - now_ms)

    assert waits == [2000, 4000, 8000, 8000, 8000]
    assert breaker.reason == "a probe failed: 502"


def test_jitter_only_lengthens_the_cooldown() -> None:
    breaker = results(Breaker(), *[False] * 5, draw=0.999)

    assert NOW + 1000 < breaker.retry_at_ms <= NOW + 1200


def test_three_successful_probes_close_it_and_the_cooldown_begins_anew_after_a_while() -> None:
    breaker, now_ms = opened(), NOW + 1000
    for _ in range(3):
        assert breaker.phase != "closed"
        breaker = leased(breaker, now_ms)
        breaker = finished(breaker, ProbeReport(breaker.fence, "succeeded"), now_ms)
    assert breaker.phase == "closed"
    assert [each.to for each in breaker.transitions] == ["open", "half_open", "closed"]

    soon = results(breaker, *[False] * 5, now_ms=now_ms + 500)
    late = results(breaker, *[False] * 5, now_ms=now_ms + 5000)

    assert soon.retry_at_ms - (now_ms + 500) == 2000
    assert late.retry_at_ms - (now_ms + 5000) == 1000


def test_a_probe_that_is_not_finished_frees_itself_and_its_late_result_does_nothing() -> None:
    first = leased(opened(), NOW + 1000, "a")
    assert with_probe(first, "b", NOW + 1499, RULES) is None

    second = leased(first, NOW + 1500, "b")

    assert second.probe_by == "b"
    assert finished(second, ProbeReport(first.fence, "failed"), NOW + 1600) == second


def test_an_unknown_result_gives_the_probe_to_the_next() -> None:
    probing = leased(opened(), NOW + 1000, "a")
    free = finished(probing, ProbeReport(probing.fence, "unknown"), NOW + 1001)

    assert free.phase == "half_open"
    assert leased(free, NOW + 1001, "b").probe_by == "b"


def test_an_order_overrules_every_phase_until_it_is_withdrawn() -> None:
    forced = with_force(opened(), "closed", NOW)
    assert forced.is_closed()
    assert with_probe(forced, "a", NOW + 5000, RULES) is None

    shut = with_force(Breaker(), "open", NOW)
    assert not shut.is_closed()
    assert with_probe(shut, "a", NOW + 5000, RULES) is None

    assert with_force(shut, None, NOW).is_closed()
    assert not with_force(forced, None, NOW).is_closed()
    orders = [each.to for each in with_force(forced, None, NOW).transitions]
    assert orders == ["open", "forced closed", "automatic"]


def test_failures_under_an_order_do_not_open_it_afterwards() -> None:
    forced = with_force(Breaker(), "closed", NOW)
    failing = results(forced, *[False] * 4)

    assert results(with_force(failing, None, NOW), False).phase == "closed"


def test_after_it_closed_requests_in_flight_double_until_there_is_no_limit() -> None:
    rules = replace(RULES, ramp_ms=6000)
    breaker = Breaker(closed_at_ms=NOW)

    limits = [in_flight_limit(breaker, NOW + at, rules) for at in range(0, 7000, 1000)]

    assert limits == [1, 2, 4, 8, 16, 32, None]
    assert in_flight_limit(Breaker(), NOW, rules) is None


def test_it_keeps_the_latest_transitions_only() -> None:
    breaker = Breaker()
    for at in range(50):
        breaker = with_force(breaker, "open" if at % 2 == 0 else None, NOW + at)

    assert len(breaker.transitions) == 20
    assert breaker.transitions[-1].at_ms == NOW + 49


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["succeed", "fail", "lease", "finish", "fail probe", "abandon"]),
        st.integers(0, 1500),
        st.floats(0, 1, exclude_max=True),
    ),
    max_size=80,
)


@given(steps=STEPS)
def test_in_every_history_one_probe_at_most_is_out_and_none_before_its_time(
    steps: list[tuple[str, int, float]],
) -> None:
    breaker, now_ms, may_probe_ms = Breaker(), NOW, 0
    out: tuple[int, int] | None = None  # the fence of a probe, and when its lease ends
    for step, later_ms, draw in steps:
        now_ms += later_ms
        before = breaker
        match step:
            case "succeed" | "fail":
                tally = Tally().added(step == "succeed", "500", now_ms, RULES)
                breaker = with_results(breaker, tally, now_ms, RULES, draw)
                assert breaker.phase == before.phase or step == "fail"
            case "lease":
                found = with_probe(breaker, "a", now_ms, RULES)
                if found is not None:
                    assert before.phase != "closed"
                    assert now_ms >= may_probe_ms
                    assert out is None or now_ms >= out[1]
                    breaker, out = found, (found.fence, now_ms + RULES.probe_ms)
            case "abandon":
                pass  # Its process was killed; only time frees the probe.
            case _ if out is not None:
                report = ProbeReport(out[0], "succeeded" if step == "finish" else "failed")
                breaker = with_probe_result(breaker, report, now_ms, RULES, draw)
                out = None
        if breaker.phase == "open" and before.phase != "open":
            assert breaker.retry_at_ms >= now_ms + RULES.cooldown_ms
            assert breaker.retry_at_ms <= now_ms + RULES.longest_cooldown_ms * 1.2 + 1
            may_probe_ms = breaker.retry_at_ms
