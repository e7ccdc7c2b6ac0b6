"""Candles from trades in any order equal those of a naive computation."""

from decimal import Decimal
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from penstock.market.interval import Interval
from penstock.monitor.candle_series import CandleSeries, Traded
from penstock.monitor.market_documents import Candles

INTERVALS = ("1s", "5s", "15s", "1m", "5m", "15m", "1h", "1d")
texts = st.decimals(min_value=0, max_value=10**12, places=8).map(lambda each: f"{each:f}")
trades = st.lists(
    st.builds(Traded, st.integers(0, 2 * 86_400 * 10**9), st.integers(0, 10**6), texts, texts),
    max_size=40,
    unique_by=lambda each: each.id,
)


def naive(interval: Interval, found: list[Traded]) -> list[Candles]:
    """Sort, group, and take the first, the greatest, the least, the last and the sum."""
    ordered = sorted(found, key=lambda each: (each.at_ns, each.id))
    rows: list[Candles] = []
    for open_ms, same in groupby(ordered, lambda each: interval.open_of(each.at_ns // 10**6)):
        group = list(same)
        prices = [Decimal(each.price) for each in group]
        volume = sum(int(Decimal(each.quantity).scaleb(8)) for each in group)
        whole, fraction = divmod(volume, 10**8)
        text = f"{whole}.{fraction:08}".rstrip("0").rstrip(".")
        rows.append(
            (open_ms, group[0].price, str(max(prices)), str(min(prices)), group[-1].price, text)
        )
    return rows


def as_numbers(rows: list[Candles]) -> list[tuple[object, ...]]:
    return [(row[0], *map(Decimal, row[1:5]), row[5]) for row in rows]


@given(trades, st.sampled_from(INTERVALS), st.randoms())
def test_they_equal_those_of_sorted_trades(found: list[Traded], text: str, random: object) -> None:
    interval = Interval.parse(text)
    series, other = CandleSeries(interval), CandleSeries(interval)
    shuffled = found[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    half, most = len(shuffled) // 2, 3 * len(shuffled) // 4

    series.add(shuffled[:half])
    other.add(shuffled[half:most])
    series.add_series(other)
    series.add(shuffled[most:])

    assert as_numbers(series.rows()) == as_numbers(naive(interval, found))


@given(trades, st.sampled_from([("1s", "5s"), ("1m", "5m"), ("5m", "1h"), ("1h", "1d")]))
def test_long_candles_of_short_ones_equal_those_of_the_trades(
    found: list[Traded], lengths: tuple[str, str]
) -> None:
    short, long = map(Interval.parse, lengths)
    first, second = CandleSeries(short), CandleSeries(long)

    first.add(found)
    for row in reversed(first.rows()):
        second.add_candle(row)

    assert as_numbers(second.rows()) == as_numbers(naive(long, found))


def test_a_sum_of_long_numbers_is_exact() -> None:
    series = CandleSeries(Interval.parse("1m"))
    large, small = "1" + "0" * 40, "0." + "0" * 39 + "1"

    series.add([Traded(0, 1, "1", large), Traded(1, 2, "1", small)])

    assert series.rows()[0][5] == f"{large}.{small[2:]}"


def test_the_digits_of_prices_are_the_exchanges() -> None:
    series = CandleSeries(Interval.parse("1m"))

    series.add([Traded(0, 1, "1.10", "1.000"), Traded(1, 2, "1.1000", "2")])

    assert series.rows() == [(0, "1.10", "1.10", "1.10", "1.1000", "3")]
