"""Whatever clocks do, no window is passed and nobody is kept silent for long.

A sample; ``python -m tests.connectors.clock_histories 0 10000`` runs thousands.
"""

import pytest
from tests.connectors.clock_histories import run

from penstock.clock import ManualClock
from penstock.connectors.clocks import Clocks
from penstock.connectors.held_tokens import HeldTokens
from penstock.storage.state.budget import Budget, LeaseRequest, WindowDemand, lease

NOON = 1_700_000_000_000 - 1_700_000_000_000 % 60_000
SECOND, MINUTE, DAY = 1_000, 60_000, 86_400_000


# 2588: a process that has no answer yet, and the store's clock is set. 4280: processes hold tokens
# of the next window, and the exchange is set back. 20078: it is set back by less than is noticed.
@pytest.mark.parametrize("seed", [*range(5), 2588, 4280, 20078])
async def test_no_window_is_passed_and_no_silence_is_longer_than_two_windows(seed: int) -> None:
    outcome = await run(seed)
    assert not outcome.failed, outcome


def asked(need: int, exchange_ms: int, period_ms: int = 10 * SECOND, want: int = 0) -> LeaseRequest:
    window = WindowDemand("weight", 100, period_ms, need=need, want=want)
    return LeaseRequest((window,), exchange_ms=exchange_ms)


def test_a_store_whose_clock_goes_back_by_15_s_lets_no_second_limit_through() -> None:
    budget, first = lease(Budget(), asked(100, NOON), NOON)
    for after_ms in range(0, 9_000, 500):
        now_ms = NOON - 15_000 + after_ms
        budget, grant = lease(budget, asked(1, NOON + after_ms), now_ms)
        assert not grant.ok
    assert first.ok


@pytest.mark.parametrize("set_by_ms", [-DAY, -15_000, 15_000, 600_000, DAY])
def test_a_store_whose_clock_is_set_mutes_nobody_for_longer_than_two_windows(
    set_by_ms: int,
) -> None:
    budget, _ = lease(Budget(), asked(100, NOON), NOON)
    waited_ms = 0
    grant = None
    while grant is None or not grant.ok:
        budget, grant = lease(budget, asked(1, NOON + waited_ms), NOON + set_by_ms + waited_ms)
        waited_ms += grant.wait_ms
    assert 10_000 <= waited_ms <= 20_000


def test_one_asker_whose_windows_lie_ahead_neither_mutes_the_others_nor_makes_room() -> None:
    budget, _ = lease(Budget(), asked(60, NOON), NOON)
    budget, wild = lease(budget, asked(30, NOON + 600_000), NOON + 100)
    assert wild.ok, "nobody knows who is wrong"
    budget, over = lease(budget, asked(20, NOON + 200), NOON + 200)
    budget, fits = lease(budget, asked(10, NOON + 300), NOON + 300)
    assert (over.ok, fits.ok) == (False, True), "what the other took counts here too"
    _, later = lease(budget, asked(100, NOON + 10_000), NOON + 10_000)
    assert later.ok


def test_an_older_window_does_not_forget_what_was_taken_in_the_present_one() -> None:
    budget, _ = lease(Budget(), asked(100, NOON), NOON)
    budget, older = lease(budget, asked(1, NOON - 600_000), NOON + 100)
    _, present = lease(budget, asked(1, NOON + 200), NOON + 200)
    assert (older.ok, present.ok) == (False, False)


def test_who_was_not_answered_in_a_window_does_not_make_it_end_earlier() -> None:
    budget, _ = lease(Budget(), asked(100, NOON), NOON)
    # Three seconds ahead of the exchange, and refused: the window is full.
    budget, refused = lease(budget, asked(1, NOON + 4_000), NOON + 1_000)
    budget, early = lease(budget, asked(1, NOON + 10_100), NOON + 7_100)
    assert (refused.ok, early.ok) == (False, False)
    _, later = lease(budget, asked(1, NOON + 20_100), NOON + 20_100)
    assert later.ok


def test_who_was_answered_in_a_window_knows_when_it_ends() -> None:
    budget, _ = lease(Budget(), asked(100, NOON), NOON)
    window = WindowDemand("weight", 100, 10 * SECOND, need=0, seen=100, seen_in=NOON // 10_000)
    # The store's clock was set back by three seconds.
    budget, _ = lease(budget, LeaseRequest((window,), exchange_ms=NOON + 1_000), NOON - 2_000)
    _, after = lease(budget, asked(1, NOON + 10_100), NOON + 7_100)
    assert after.ok


def test_tokens_of_the_next_window_stay_counted_if_the_exchange_is_set_back() -> None:
    budget, _ = lease(Budget(), asked(40, NOON), NOON)
    budget, earlier = lease(budget, asked(1, NOON - 1_500), NOON + 500)
    budget, over = lease(budget, asked(61, NOON + 100), NOON + 2_100)
    _, fits = lease(budget, asked(60, NOON + 200), NOON + 2_200)
    assert (earlier.ok, earlier.at_ms) == (False, NOON + 2_000)
    assert (over.ok, fits.ok) == (False, True)


def answered(need: int, exchange_ms: int) -> LeaseRequest:
    index = exchange_ms // 10_000
    window = WindowDemand("weight", 100, 10 * SECOND, need=need, seen=1, seen_in=index)
    return LeaseRequest((window,), exchange_ms=exchange_ms)


def test_a_window_begins_once_the_one_before_is_over_by_every_confirmed_estimate() -> None:
    budget, _ = lease(Budget(), asked(1, NOON), NOON)
    # Set back by 0.9 s, as a response showed; the other process has had none since.
    budget, _ = lease(budget, answered(1, NOON + 1_000), NOON + 1_900)
    budget, early = lease(budget, asked(1, NOON + 10_100), NOON + 10_100)
    _, later = lease(budget, asked(1, NOON + 10_950), NOON + 10_950)
    _, begun = lease(budget, answered(1, NOON + 10_100), NOON + 10_100)
    assert (early.ok, early.at_ms) == (False, NOON + 10_900)
    assert later.ok
    assert begun.ok, "a response in the new window shows that it has begun"


def test_a_budget_that_was_written_before_ends_were_kept_goes_on() -> None:
    before = Budget(uses={"weight": (NOON // 10_000, 95)})
    budget, over = lease(before, asked(6, NOON + 1), NOON + 1)
    budget, fits = lease(budget, asked(5, NOON + 2), NOON + 2)
    assert (over.ok, fits.ok) == (False, True)
    assert budget.uses["weight"] == (NOON // 10_000, 100, 0, NOON + 10_000, 0, 0, 0)


def test_uses_of_markets_that_nobody_asks_for_any_more_are_dropped() -> None:
    budget = Budget()
    for number in range(5_000):
        window = WindowDemand(f"weight/1000 pair/{number}", 10, SECOND)
        budget, grant = lease(budget, LeaseRequest((window,)), NOON + number * 50)
        assert grant.ok
    assert len(budget.uses) < 200


def test_tokens_of_a_window_that_lies_ahead_are_given_up_for_the_present_one() -> None:
    tokens = HeldTokens()
    tokens.put("weight", 15, 8)
    tokens.put("weight", 5, 3)
    assert (tokens.of("weight", 15), tokens.of("weight", 5)) == (0, 3)


def test_a_store_s_clock_is_believed_to_be_set_once_two_answers_say_so() -> None:
    clock = ManualClock(NOON)
    clocks = Clocks(clock, guard_ms=100)
    assert clocks.saw_store(NOON + 5, NOON) == 0
    assert clocks.saw_store(NOON + 600_005, NOON) == 0
    assert clocks.to_store(NOON) < NOON + 100
    assert clocks.saw_store(NOON + 600_005, NOON) == 600_000
    assert clocks.to_store(NOON) >= NOON + 600_000
