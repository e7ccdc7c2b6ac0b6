"""Limits are announced as they are set, and a refusal says what was broken and for how long."""

import msgspec
import pytest

from penstock.config import SimulatedBinance, Simulator
from penstock.errors import ConfigError
from penstock.simulator.binance import Binance, build
from penstock.simulator.binance.rules import Limits, limits_from
from penstock.simulator.engine.limits import Verdict


def verdict(limits: Limits, **changes: object) -> Verdict:
    plain: dict[str, object] = {
        "admitted": False,
        "at_ms": 5,
        "window": 0,
        "used": {limits.weight.name: 6025},
        "broken": limits.weight,
        "retry_after_s": 17,
    }
    return Verdict(**{**plain, **changes})  # type: ignore[arg-type]


def test_the_limits_are_those_of_the_exchange() -> None:
    announced = limits_from(Simulator()).announcement()

    assert announced == [
        {"rateLimitType": "REQUEST_WEIGHT", "interval": "MINUTE", "intervalNum": 1, "limit": 6000},
        {"rateLimitType": "ORDERS", "interval": "SECOND", "intervalNum": 10, "limit": 100},
        {"rateLimitType": "ORDERS", "interval": "DAY", "intervalNum": 1, "limit": 200000},
        {"rateLimitType": "RAW_REQUESTS", "interval": "MINUTE", "intervalNum": 5, "limit": 61000},
    ]


@pytest.mark.parametrize(
    ("seconds", "interval", "count", "header"),
    [
        (1.0, "SECOND", 1, "X-MBX-USED-WEIGHT-1S"),
        (10.0, "SECOND", 10, "X-MBX-USED-WEIGHT-10S"),
        (90.0, "SECOND", 90, "X-MBX-USED-WEIGHT-90S"),
        (60.0, "MINUTE", 1, "X-MBX-USED-WEIGHT-1M"),
        (300.0, "MINUTE", 5, "X-MBX-USED-WEIGHT-5M"),
        (7200.0, "HOUR", 2, "X-MBX-USED-WEIGHT-2H"),
        (86400.0, "DAY", 1, "X-MBX-USED-WEIGHT-1D"),
    ],
)
def test_a_window_is_named_in_its_largest_unit(
    seconds: float, interval: str, count: int, header: str
) -> None:
    limits = limits_from(Simulator(binance=SimulatedBinance(weight_window=seconds)))

    announced = limits.announcement()[0]

    assert (announced["interval"], announced["intervalNum"]) == (interval, count)
    assert limits.usage_headers(verdict(limits)) == {"X-MBX-USED-WEIGHT": "6025", header: "6025"}


@pytest.mark.parametrize("name", ["weight_window", "raw_window"])
def test_a_window_that_cannot_be_announced_is_refused_at_the_start(name: str) -> None:
    with pytest.raises(ConfigError, match="whole number of seconds"):
        build([], msgspec.convert({"binance": {name: 1.5}}, Simulator))


def test_a_limit_set_by_its_name_is_announced_and_must_be_one_that_can_be() -> None:
    limits = limits_from(Simulator(limits={"REQUEST_WEIGHT": "50/2"}))

    announced = limits.announcement()[0]
    assert (announced["limit"], announced["interval"], announced["intervalNum"]) == (
        50,
        "SECOND",
        2,
    )
    with pytest.raises(ConfigError, match="whole number of seconds"):
        limits_from(Simulator(limits={"REQUEST_WEIGHT": "50/0.5"}))


def test_being_over_the_limit_is_said_in_the_exchanges_words() -> None:
    limits = limits_from(Simulator())

    reply = limits.refusal(verdict(limits))

    assert reply.status == 429
    assert reply.headers["Retry-After"] == "17"
    assert reply.headers["X-MBX-USED-WEIGHT-1M"] == "6025"
    assert msgspec.json.decode(reply.body) == {
        "code": -1003,
        "msg": "Too much request weight used; current limit is 6000 request weight per 1 MINUTE."
        " Please use WebSocket Streams for live updates to avoid polling the API.",
    }


def test_a_ban_says_when_it_ends() -> None:
    limits = limits_from(Simulator())

    reply = limits.refusal(verdict(limits, banned_until_ms=1_741_178_096_789, retry_after_s=120))

    assert (reply.status, reply.headers["Retry-After"]) == (418, "120")
    assert msgspec.json.decode(reply.body) == {
        "code": -1003,
        "msg": "Way too much request weight used; IP banned until 1741178096789."
        " Please use WebSocket Streams for live updates to avoid bans.",
    }


def test_too_many_requests_or_connections_are_named_as_such() -> None:
    limits = limits_from(Simulator(binance=SimulatedBinance(raw_limit=9, connect_limit=3)))

    requests = limits.refusal(verdict(limits, broken=limits.raw))
    connections = limits.refusal(verdict(limits, broken=limits.connects, used={}))

    assert b"current limit is 9 requests per 5 MINUTE" in requests.body
    assert b"current limit is 3 connection attempts per 5 MINUTE" in connections.body
    assert set(connections.headers) == {"Retry-After"}


def test_the_exchange_counts_all_four_limits(exchange: Binance) -> None:
    rules = {rule.unit: rule for rule in exchange.rules}

    assert {unit: (rule.limit, rule.period_ms) for unit, rule in rules.items()} == {
        "weight": (6000, 60_000),
        "request": (61_000, 300_000),
        "connect": (300, 300_000),
        "message": (5, 1000),
    }
    assert {unit: rule.scope for unit, rule in rules.items()} == {
        "weight": "ip",
        "request": "ip",
        "connect": "ip",
        "message": "connection",
    }
