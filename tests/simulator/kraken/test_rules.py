"""Limits: what is counted apart, what is counted twice, and what refusals say."""

import pytest

from penstock.config import SimulatedKraken, Simulator
from penstock.errors import ConfigError
from penstock.simulator.engine.limits import RequestLimiter, Verdict
from penstock.simulator.engine.rules import LimitTarget
from penstock.simulator.kraken import Kraken
from penstock.simulator.kraken.rules import rules_from, upkeep_from

IP = "127.0.0.1"
ETH, XTZ = LimitTarget("pair", "XETHZUSD"), LimitTarget("pair", "XTZUSD")


def _admission(*, markets_use_address_limit: bool = True) -> RequestLimiter:
    own = SimulatedKraken(markets_use_address_limit=markets_use_address_limit)
    return RequestLimiter(rules_from(Simulator(kraken=own)), None)


def test_a_request_a_second_is_always_safe_and_a_burst_of_fifteen_is() -> None:
    limiter = _admission()

    assert all(limiter.admit(IP, "/", 1, 0, ETH).admitted for _ in range(15))
    assert not limiter.admit(IP, "/", 1, 0, ETH).admitted
    later = [limiter.admit(IP, "/", 1, 2000 + 1000 * n, ETH).admitted for n in range(60)]
    assert all(later)


def test_whoever_goes_on_is_refused_for_longer() -> None:
    patient, stubborn = _admission(), _admission()
    for limiter, refused in ((patient, 1), (stubborn, 30)):
        for _ in range(15 + refused):
            limiter.admit(IP, "/", 1, 0, ETH)

    assert patient.admit(IP, "/", 1, 3000, ETH).admitted
    assert not stubborn.admit(IP, "/", 1, 3000, ETH).admitted
    assert stubborn.admit(IP, "/", 1, 40_000, ETH).admitted


def test_pairs_use_up_the_limit_of_the_address_unless_told_not_to() -> None:
    together, apart = _admission(), _admission(markets_use_address_limit=False)
    for limiter in (together, apart):
        for _ in range(15):
            assert limiter.admit(IP, "/", 1, 0, ETH).admitted

    assert not together.admit(IP, "/", 1, 0, XTZ).admitted
    assert apart.admit(IP, "/", 1, 0, XTZ).admitted
    assert apart.admit(IP, "/", 1, 0, LimitTarget("public")).admitted
    assert not apart.admit(IP, "/", 1, 0, ETH).admitted


def _refused(limiter: RequestLimiter, place: LimitTarget) -> Verdict:
    for _ in range(30):
        verdict = limiter.admit(IP, "/", 1, 0, place)
    assert not verdict.admitted
    return verdict


def test_refusals_are_errors_inside_a_200(exchange: Kraken) -> None:
    public = exchange.refusal(_refused(_admission(), LimitTarget("public")))
    pair = exchange.refusal(_refused(_admission(markets_use_address_limit=False), ETH))

    assert (public.status, pair.status) == (200, 200)
    assert public.body == b'{"error":["EGeneral:Too many requests"]}'
    assert pair.body == b'{"error":["EAPI:Rate limit exceeded"]}'
    assert exchange.usage_headers(_refused(_admission(), ETH)) == {}


def test_connections_beyond_150_in_ten_minutes_meet_a_page(exchange: Kraken) -> None:
    limiter = _admission()
    verdicts = [limiter.connect(IP, "/v2", 1000 * n) for n in range(151)]

    assert [verdict.admitted for verdict in verdicts] == [True] * 150 + [False]
    reply = exchange.refusal(verdicts[-1])
    assert (reply.status, reply.content_type) == (429, "text/html; charset=UTF-8")
    assert limiter.connect(IP, "/v2", 601_000).admitted


def test_an_operator_may_change_any_of_them() -> None:
    rules = {rule.name: rule for rule in rules_from(Simulator(limits={"pair": "2/3"}))}

    assert (rules["pair"].limit, rules["pair"].period_ms) == (2, 3000)
    with pytest.raises(ConfigError, match="public, pair, connects, messages"):
        rules_from(Simulator(limits={"weight": "2/3"}))


def test_only_a_connection_without_a_subscription_is_ended() -> None:
    assert upkeep_from(SimulatedKraken()).subscribe_within_ms == 60_000
    assert upkeep_from(SimulatedKraken(subscribe_within=0.5)).subscribe_within_ms == 500
    assert upkeep_from(SimulatedKraken()).ping_every_ms is None
