"""Limits are data with a date."""

from penstock.exchanges.base import valid_at
from penstock.exchanges.upbit.limits import remaining
from penstock.throttled.upbit import limits as upbit

HISTORY = {0: "old", 1000: "new"}


def test_a_limit_holds_from_its_day_on() -> None:
    assert valid_at(HISTORY, 999) == "old"
    assert valid_at(HISTORY, 1000) == "new"


def test_upbit_admits_more_orders_since_august_2026() -> None:
    before_ms = 1_787_238_000_000 - 1

    assert valid_at(upbit.LIMITS_FROM, before_ms)["order"] == (8, 1.0)
    assert valid_at(upbit.LIMITS_FROM, before_ms + 1)["order"] == (12, 1.0)
    assert valid_at(upbit.LIMITS_FROM, before_ms)["candle"] == (10, 1.0)


def test_only_the_second_of_remaining_req_is_read() -> None:
    assert remaining({"remaining-req": "group=candle; min=600; sec=9"}) == ("candle", 9)
    assert remaining({"remaining-req": "group=anything;sec=0"}) == ("anything", 0)
    assert remaining({"remaining-req": "group=candle; min=600; sec=x"}) is None
    assert remaining({}) is None
