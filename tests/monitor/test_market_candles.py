"""A chart's candles: recorded ones, those of trades, and which of them are read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import events
from tests.dataset.stored import dataset

from penstock.coverage.model import GapRow
from penstock.errors import NoData, NotCollected
from penstock.market.events import Event, Trade
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol
from penstock.monitor import market_candles
from penstock.monitor.candle_series import CandleSeries, Traded
from penstock.monitor.market_candles import CandleRange, CandlesRead, read_candles, shown_gaps
from penstock.monitor.market_documents import CandleInterval
from penstock.storage.log import EventLog, open_log

NOW_MS = 1_790_000_040_000
"""Forty seconds after a whole minute."""
MINUTE_MS = 60_000
BTC = Symbol("BTC", "USDT")


def trade(number: int, at_ms: int, price: str = "1", quantity: str = "1") -> Trade:
    return events.trade(
        number, at_ns=at_ms * 1_000_000, received_at_ns=at_ms * 1_000_000, price_text=price,
        quantity_text=quantity,
    )  # fmt: skip


def read(log: EventLog, interval: CandleInterval | None = "1m", **asked: int) -> CandlesRead:
    reader = log.reader()
    wanted = CandleRange(exchange="toy", symbol="btc_usdt", interval=interval, **asked)
    found = read_candles(reader, wanted, NOW_MS)
    reader.close()
    return found


def recorded(*found: Event) -> EventLog:
    log = open_log("memory:")
    writer = log.writer("a")
    for each in found:
        writer.append([each])
    return log


def test_a_range_that_ends_at_the_beginning_of_time_is_empty() -> None:
    log = recorded(trade(1, NOW_MS - MINUTE_MS))

    assert read(log).document.items
    assert not read(log, until_ms=0).document.items


trades = st.lists(
    st.tuples(
        st.integers(0, 30 * MINUTE_MS),
        st.decimals(1, 99, places=2).map(str),
        st.decimals(0, 9, places=3).map(str),
    ),
    min_size=1,
    max_size=60,
).map(
    lambda rows: [
        trade(number, NOW_MS - ago, *texts)
        for number, (ago, *texts) in enumerate(sorted(rows, reverse=True), 1)
    ]
)


@given(trades, st.sampled_from(["1s", "5s", "1m", "5m"]), st.integers(0, 1800), st.integers(0, 30))
def test_they_are_those_of_all_trades_in_the_range(
    found: list[Trade], interval: CandleInterval, since_s: int, length_s: int
) -> None:
    since_ms = NOW_MS - since_s * 1000
    until_ms = since_ms + length_s * MINUTE_MS

    chart = read(recorded(*found), interval, since_ms=since_ms, until_ms=until_ms, limit=2000)

    series = CandleSeries(Interval.parse(interval))
    series.add(
        Traded(t.at_ns, t.id, t.price_text, t.quantity_text)
        for t in found
        if t.at_ns < min(until_ms, NOW_MS + 1) * 1_000_000
    )
    first_ms = series.interval.open_of(since_ms)
    expected = [row for row in series.rows() if first_ms <= row[0] < until_ms]
    inside = [row for row in expected if series.interval.next_open(row[0]) <= until_ms]
    assert chart.document.items[: len(inside)] == inside
    assert [row[0] for row in chart.document.items] == [row[0] for row in expected]


def test_recorded_candles_are_used_where_they_are_and_trades_elsewhere() -> None:
    open_ms = NOW_MS // MINUTE_MS * MINUTE_MS
    candles = [
        events.candle(open_ms - ago * MINUTE_MS, close_text=str(ago), volume_text="100")
        for ago in (3, 2, 1)
    ]
    log = recorded(
        trade(1, open_ms - 5 * MINUTE_MS), trade(2, open_ms - 4 * MINUTE_MS),
        trade(3, open_ms - 2 * MINUTE_MS), *candles, trade(4, open_ms + 1, "7"),
    )  # fmt: skip

    chart = read(log).document

    assert [(row[0], row[4], row[5]) for row in chart.items] == [
        (open_ms - 5 * MINUTE_MS, "1", "1"),
        (open_ms - 4 * MINUTE_MS, "1", "1"),
        (open_ms - 3 * MINUTE_MS, "3", "100"),
        (open_ms - 2 * MINUTE_MS, "2", "100"),
        (open_ms - 1 * MINUTE_MS, "1", "100"),
        (open_ms, "7", "1"),
    ]
    assert chart.source == "candles and trades"
    recorded_only = read(log, limit=4).document
    assert len(recorded_only.items) == 4
    assert recorded_only.since_ms == open_ms - 3 * MINUTE_MS, "the recorded ones are read, too"


def test_longer_candles_are_made_of_recorded_ones_and_of_the_trades_after_them() -> None:
    hour_ms = NOW_MS // 3_600_000 * 3_600_000
    log = recorded(
        events.candle(hour_ms, open_text="5", high_text="9", low_text="2", close_text="6"),
        events.candle(hour_ms + MINUTE_MS, high_text="7", close_text="4"),
        trade(1, hour_ms + MINUTE_MS // 2, "100"),
        trade(2, hour_ms + 2 * MINUTE_MS, "8"),
    )

    (row,) = read(log, "1h").document.items

    assert row == (hour_ms, "5", "9", "1", "8", "3"), "the first trade is in a recorded candle"


def test_a_recorded_candle_in_the_middle_of_a_longer_one_does_not_stand_for_it() -> None:
    hour_ms = NOW_MS // 3_600_000 * 3_600_000 - 3_600_000
    log = recorded(events.candle(hour_ms + 5 * MINUTE_MS), trade(1, hour_ms, "3"))

    assert read(log, "1h").document.items == [(hour_ms, "3", "3", "3", "3", "1")]


def test_a_busy_market_shows_its_newest_part_and_says_since_when(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(market_candles, "_MOST_TRADES", 100)
    second_ms = NOW_MS // 1000 * 1000
    log = recorded(*(trade(n, second_ms - 60_000 + n * 200) for n in range(300)))

    chart = read(log, "1s").document

    assert chart.since_ms == second_ms - 19_000, "a hundred trades begin within a second"
    assert [row[0] for row in chart.items] == [second_ms - ago * 1000 for ago in range(19, 0, -1)]
    assert {row[5] for row in chart.items} == {"5"}


def test_the_interval_fits_what_is_recorded() -> None:
    for age_ms, interval in ((30_000, "5s"), (900_000, "15s"), (86_400_000, "1m")):
        chart = read(recorded(trade(1, NOW_MS - age_ms), trade(2, NOW_MS)), None).document

        assert chart.interval == interval
    assert read(recorded(events.candle(0)), None).document.interval == "1m"


def test_a_market_of_which_only_tickers_are_recorded_has_no_candles() -> None:
    log = recorded(events.ticker(NOW_MS * 1_000_000))

    chart = read(log).document

    assert (chart.items, chart.source) == ([], "nothing")


def test_what_was_not_collected_is_named() -> None:
    with pytest.raises(NoData):
        read(open_log("memory:"))
    with pytest.raises(NotCollected) as refused:
        read(recorded(events.trade(1, Symbol("ETH", "USDT"))))
    assert refused.value.name == "btc_usdt"


def test_a_damaged_record_is_left_out() -> None:
    log = recorded(trade(1, NOW_MS - 2000), trade(2, NOW_MS - 1000))
    kv = log._slots["a"]  # type: ignore[attr-defined]
    (key,) = [key for key, value in kv.scan(b"r", b"s") if b'"id":1,' in value]
    kv._values[key] = kv._values[key][:30]

    (row,) = read(log).document.items

    assert row[5] == "1"


def test_what_only_the_lake_has_is_read_there() -> None:
    minute_ms = NOW_MS // MINUTE_MS * MINUTE_MS
    old = recorded(trade(1, minute_ms - 5 * MINUTE_MS, "5"), trade(2, minute_ms - MINUTE_MS, "6"))
    log = recorded(trade(2, minute_ms - MINUTE_MS, "6"), trade(3, minute_ms, "7"))
    reader = log.reader()
    asked = CandleRange(exchange="toy", symbol="btc_usdt", interval="1m")

    chart = read_candles(reader, asked, NOW_MS, lambda: dataset(old)).document

    assert [(row[0], row[1]) for row in chart.items] == [
        (minute_ms - 5 * MINUTE_MS, "5"), (minute_ms - MINUTE_MS, "6"), (minute_ms, "7"),
    ]  # fmt: skip
    assert chart.source == "lake"


def test_only_gaps_of_the_range_are_shown() -> None:
    def gap(first: int, since_ms: int | None, until_ms: int | None, **fields: str) -> GapRow:
        return GapRow(
            exchange="toy", channel="trades", symbol="btc_usdt", by="id", first=first, last=first,
            since_ms=since_ms, until_ms=until_ms, cause="disconnected", **fields,  # type: ignore[arg-type]
        )  # fmt: skip

    rows = [
        gap(1, 0, 5), gap(2, 8, 12, reason="cut"), gap(3, 13, 15, state="filled"),
        gap(4, 18, None), gap(5, 30, 40),
    ]  # fmt: skip

    shown = [(each.since_ms, each.until_ms, each.reason) for each in shown_gaps(rows, 10, 20)]

    assert shown == [(8, 12, "cut"), (18, 20, "disconnected")]
