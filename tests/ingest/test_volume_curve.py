"""Estimates from the volume: shares of it, parts of candles, and how far off a mean may be."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.ingest.volume_curve import Bin, VolumeCurve, mean_of
from penstock.market.events import Candle
from penstock.market.interval import MINUTE_MS, Interval
from penstock.market.symbol import Symbol

curves = st.lists(st.tuples(st.integers(1, 9), st.floats(0.1, 1e6)), min_size=1).map(
    lambda each: VolumeCurve(
        tuple(Bin(10 * n, 10 * n + length, volume) for n, (length, volume) in enumerate(each))
    )
)


def candle(open_ms: int, volume: str) -> Candle:
    prices: Any = dict.fromkeys(("open_text", "high_text", "low_text", "close_text"), "1")
    return Candle(
        exchange="upbit", symbol=Symbol("BTC", "KRW"), received_at_ns=0, source="rest",
        interval="1m", open_ms=open_ms, close_ms=open_ms + MINUTE_MS - 1, volume_text=volume,
        closed=True, **prices,
    )  # fmt: skip


@given(curves, st.integers(1, 30))
@example(VolumeCurve((Bin(0, 5, 896713.5409249209), Bin(10, 11, 896713.5409249209))), 13)
def test_times_are_the_middles_of_equal_shares(curve: VolumeCurve, count: int) -> None:
    times = curve.times(count)

    assert len(times) == count
    assert times == sorted(times)
    for number, at_ms in enumerate(times):
        bin_ = curve.bin_at(at_ms)
        before = curve.within(0, bin_.since_ms).total
        wanted = (number + 0.5) * curve.total / count
        assert before * 0.999 <= wanted <= (before + bin_.volume) * 1.001


@given(curves, st.integers(0, 500))
def test_two_parts_are_the_whole(curve: VolumeCurve, at_ms: int) -> None:
    parts = curve.within(0, at_ms).total + curve.within(at_ms, 1 << 40).total

    assert parts == pytest.approx(curve.total)


def test_an_open_candle_ends_now() -> None:
    candles = [candle(0, "60"), candle(MINUTE_MS, "30")]

    curve = VolumeCurve.of(candles, Interval.parse("1m"), MINUTE_MS + 30_000)

    assert curve.within(30_000, MINUTE_MS + 15_000).total == pytest.approx(30 + 15)


def test_a_mean_says_how_far_off_it_may_be() -> None:
    assert mean_of([]) == (0.0, 0.0)
    assert mean_of([5.0, 5.0]) == (5.0, 0.0)
    assert mean_of([5.0]) == (5.0, 1.0)
    middle, error = mean_of([4.0, 6.0, 4.0, 6.0])
    assert middle == 5.0
    assert error == pytest.approx(0.115, abs=0.001)
