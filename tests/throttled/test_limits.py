"""Limits are data with a date."""

from penstock.throttled.binance import limits as binance
from penstock.throttled.limits import ValidFrom, valid_at
from penstock.throttled.upbit import limits as upbit

HISTORY = (ValidFrom(0, "old"), ValidFrom(1000, "new"))


def test_a_limit_holds_from_its_day_on() -> None:
    assert valid_at(HISTORY, 999) == "old"
    assert valid_at(HISTORY, 1000) == "new"


def test_binance_counts_weight_per_minute_and_requests_per_five() -> None:
    weight, raw = valid_at(binance.HISTORY, 1_790_000_000_000)

    assert (weight.amount, weight.period_s, weight.unit) == (6000, 60, "weight")
    assert (raw.amount, raw.period_s, raw.unit) == (61_000, 300, "request")


def test_upbit_admits_more_orders_since_august_2026() -> None:
    before_ms = 1_787_238_000_000 - 1

    assert valid_at(upbit.HISTORY, before_ms)["order"] == (8, 1.0)
    assert valid_at(upbit.HISTORY, before_ms + 1)["order"] == (12, 1.0)
    assert valid_at(upbit.HISTORY, before_ms)["candle"] == (10, 1.0)


def test_used_weight_is_read_for_every_window_that_is_told() -> None:
    headers = {"X-MBX-USED-WEIGHT": "7", "x-mbx-used-weight-1m": "25", "X-MBX-USED-WEIGHT-3S": "4"}

    assert binance.read_usage(headers) == [(25, 60), (4, 3)]
    assert binance.read_usage({"X-MBX-USED-WEIGHT-1M": "many", "Date": "1"}) == []


def test_a_ban_names_its_end() -> None:
    words = "Way too much request weight used; IP banned until 1573474564000. Please use"

    assert binance.read_ban_end_ms(words) == 1_573_474_564_000
    assert binance.read_ban_end_ms("Too much request weight used") is None


def test_only_the_second_of_remaining_req_is_read_and_no_group() -> None:
    assert upbit.read_left({"Remaining-Req": "group=candle; min=600; sec=9"}) == 9
    assert upbit.read_left({"Remaining-Req": "group=anything;sec=0"}) == 0
    assert upbit.read_left({"Remaining-Req": "group=candle; min=600; sec=x"}) is None
    assert upbit.read_left({}) is None
