"""Candles computed from trades equal a plain computation with exact decimals."""

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dataset.stored import NOON_NS, NOW_NS, SECOND_NS, dataset
from tests.events import candle, trade

from penstock.dataset.dataset import Dataset
from penstock.errors import BadQuery
from penstock.market.events import Trade
from penstock.market.interval import Interval
from penstock.storage.log import open_log

NOON_MS = NOON_NS // 1_000_000


@st.composite
def trades(draw: st.DrawFn) -> list[Trade]:
    seconds = sorted(draw(st.lists(st.integers(0, 80_000), max_size=40)))
    return [
        trade(
            number,
            at_ns=NOON_NS + second * SECOND_NS,
            received_at_ns=NOON_NS + second * SECOND_NS,
            price_text=draw(st.sampled_from(["0.00000123", "60000.01", "1.5"])),
            quantity_text=draw(st.sampled_from(["0.1", "0.2", "1000000.000000001"])),
            taker=draw(st.sampled_from(["buy", "sell"])),
        )
        for number, second in enumerate(seconds, 1)
    ]


def data_of(found: list[Trade], window_bytes: int = 64 << 20) -> Dataset:
    log = open_log("memory:")
    log.writer("a").append(found)
    return dataset(log, window_bytes=window_bytes)


@settings(max_examples=20, deadline=None)
@given(trades(), st.sampled_from(["7m", "1h", "90s", "1w", "1M", "1d"]), st.booleans())
def test_candles_of_any_interval_are_exact(found: list[Trade], text: str, small: bool) -> None:
    interval = Interval.parse(text)
    data = data_of(found, 2000 if small else 64 << 20)
    opens: dict[int, list[Trade]] = {}
    for each in found:
        opens.setdefault(interval.open_of(each.at_ms), []).append(each)
    whole = {
        open_ms: part
        for open_ms, part in opens.items()
        if interval.next_open(open_ms) <= NOW_NS // 1_000_000
    }

    query = data.candles(text, from_trades=True, on_gap="ignore")
    computed = list(query)

    assert [each.open_ms for each in computed] == sorted(whole)
    for made in computed:
        part = whole[made.open_ms]
        assert made.open == part[0].price
        assert made.close == part[-1].price
        assert made.high == max(each.price for each in part)
        assert made.low == min(each.price for each in part)
        assert made.volume == sum(each.quantity for each in part)
        assert made.trades == len(part)
        bought = [each for each in part if each.taker == "buy"]
        assert made.taker_buy_volume == sum(each.quantity for each in bought)
        assert made.quote_volume_text is not None
        amount = sum(each.price * each.quantity for each in part)
        assert abs(Decimal(made.quote_volume_text) - amount) < Decimal("1e-15")
        assert (made.first_trade_id, made.last_trade_id) == (part[0].id, part[-1].id)
        assert made.close_ms == interval.next_open(made.open_ms) - 1


def at(second: int, number: int) -> Trade:
    ns = NOON_NS + second * SECOND_NS
    return trade(number, at_ns=ns, received_at_ns=ns, price_text=str(number))


def test_intervals_without_trades_are_as_chosen() -> None:
    data = data_of([at(0, 1), at(200, 2)])

    def closes(empty: str) -> list[tuple[object, ...]]:
        query = data.candles("1m", from_trades=True, empty=empty, on_gap="ignore")  # type: ignore[arg-type]
        return query.polars().select("close", "volume", "trades").rows()

    assert closes("skip") == [(1.0, 1.0, 1), (2.0, 1.0, 1)]
    assert closes("fill") == [(1.0, 1.0, 1), (1.0, 0.0, 0), (1.0, 0.0, 0), (2.0, 1.0, 1)]
    assert closes("null") == [(1.0, 1.0, 1), (None, 0.0, 0), (None, 0.0, 0), (2.0, 1.0, 1)]
    with pytest.raises(BadQuery):
        closes("zero")


def test_a_range_contains_whole_candles_that_open_in_it() -> None:
    data = data_of([at(second, second + 1) for second in range(0, 600, 10)])
    since, until = NOON_NS + 30 * SECOND_NS, NOON_NS + 250 * SECOND_NS
    query = data.candles("1m", from_trades=True, since=since, until=until, on_gap="ignore")

    rows = query.polars().select("time_ns", "trades").rows()
    assert rows == [(NOON_NS + minute * 60 * SECOND_NS, 6) for minute in (1, 2, 3, 4)]


def test_candles_have_the_shape_of_ccxt(tmp_path: Path) -> None:
    log = open_log("memory:")
    writer = log.writer("a")
    writer.append([at(second, second + 1) for second in range(0, 600, 10)])
    writer.append([candle(NOON_MS + i * 3_600_000, "1h", close_text="7") for i in range(3)])
    data = dataset(log)

    with pytest.warns(UserWarning, match="coverage"):
        hours = data.fetch_ohlcv("BTC/USDT", "1h", limit=2)
    with pytest.warns(UserWarning, match="coverage"):
        minutes = data.fetch_ohlcv("BTC/USDT", "1m", since=NOON_MS + 60_000, limit=1)
    assert hours == [[NOON_MS + i * 3_600_000, 1.0, 1.0, 1.0, 7.0, 1.0] for i in (1, 2)]
    assert minutes == [[NOON_MS + 60_000, 61.0, 111.0, 61.0, 111.0, 6.0]]
