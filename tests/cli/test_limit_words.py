"""Limits in words: each with its unit and period, and always the same one."""

import pytest

from penstock.cli.limit_words import limit_words, main_limit
from penstock.clock import ManualClock
from penstock.collect.reporter import limit_status
from penstock.exchanges import registry
from penstock.throttle.gate import Limit
from penstock.throttle.local_gate import LocalGate


def shown(used: dict[Limit, int]) -> str:
    main = main_limit([limit_status(limit, count) for limit, count in used.items()])
    return "" if main is None else limit_words(main)


def unused(exchange: str) -> dict[Limit, int]:
    return dict.fromkeys(registry.load(exchange).limits(2_000_000_000_000), 0)


@pytest.mark.parametrize(
    ("exchange", "says"),
    [
        ("binance", "weight 0 of 6,000 per minute"),
        ("kraken", "requests 0 of a burst of 5, 1 per second"),
        ("coinbase", "requests 0 of a burst of 10, 10 per second"),
        ("upbit", "requests (market) 8 per second, one at a time"),
    ],
)
def test_a_limit_is_named_with_its_unit_and_period(exchange: str, says: str) -> None:
    assert shown(unused(exchange)) == says


def test_the_same_limit_is_shown_while_none_is_half_used() -> None:
    weight, requests = unused("binance")

    # The minute has just turned, and the five minutes of the other limit have not.
    assert shown({weight: 0, requests: 900}) == "weight 0 of 6,000 per minute"
    assert shown({weight: 0, requests: 40_000}) == "requests 40,000 of 61,000 per 5 minutes"
    assert shown({weight: 5_900, requests: 40_000}) == "weight 5,900 of 6,000 per minute"
    assert shown({}) == ""


async def test_no_more_is_ever_used_of_a_burst_than_it_holds() -> None:
    gate = LocalGate(ManualClock(), registry.load("kraken").limits(0))
    for pair in ("pair/XBTUSD", "pair/ETHUSD"):
        await gate.acquire(1, pair)

    assert shown(gate.used()) == "requests 2 of a burst of 5, 1 per second"
    assert all(each.used <= each.amount for each in (
        limit_status(limit, used) for limit, used in gate.used().items()
    ))  # fmt: skip
