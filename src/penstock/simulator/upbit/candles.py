"""Computes candles, latest first, without those of intervals that have no trade.

A page of two hundred may therefore cover a long time, and is searched in blocks.
"""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.simulator.market.market import Sums
from penstock.simulator.upbit.instrument import DAY_MS, Instrument
from penstock.simulator.upbit.periods import Period
from penstock.simulator.upbit.spelling import RATE_DECIMALS, kst, rate, rest_number, utc

MOST_CANDLES = 200
_BLOCK = 200


class Candle(NamedTuple):
    """One candle with trades."""

    open_ms: int
    last_ms: int
    """The time of the last trade."""
    sums: Sums


class Page(NamedTuple):
    """The requested candles."""

    period: Period
    before_ms: int
    """The candles open before this time."""
    rows: int
    not_before_ms: int
    """The start of the available history."""


def candles(instrument: Instrument, page: Page, as_of_ms: int) -> list[Candle]:
    """The latest of the requested candles, latest first."""
    found: list[Candle] = []
    for block in _blocks(instrument, page, as_of_ms):
        found += _traded(instrument, page.period, block, as_of_ms)[::-1]
        if len(found) >= page.rows:
            break
    return found[: page.rows]


def candle_at(instrument: Instrument, period: Period, at_ms: int) -> Candle | None:
    """The candle of a time, with the trades up to then; None without trades."""
    number = period.number(at_ms)
    found = _traded(instrument, period, range(number, number + 1), at_ms)
    return found[0] if found else None


def _blocks(instrument: Instrument, page: Page, as_of_ms: int) -> Iterator[range]:
    # Bounded by the epoch, since dates begin with year 1; all markets begin long after it.
    end = page.period.number(max(0, min(page.before_ms - 1, as_of_ms))) + 1
    least = page.period.number(max(page.not_before_ms, instrument.listed_at_ms))
    while end > least:
        yield range(max(least, end - _BLOCK), end)
        end -= _BLOCK


def _traded(instrument: Instrument, period: Period, numbers: range, as_of_ms: int) -> list[Candle]:
    """The candles with trades among consecutive numbers, oldest first."""
    opens = [period.open_ms(number) for number in range(numbers.start, numbers.stop + 1)]
    # A week may open before the listing; its sums begin at the listing.
    borders = [max(opens[0], instrument.listed_at_ms), *opens[1:]]
    market = instrument.market
    if borders[-1] <= as_of_ms + 1:
        rows = market.candles(borders)
    else:
        rows = [*market.candles(borders[:-1]), market.sums(borders[-2], as_of_ms + 1)]
    return [
        Candle(open_ms, market.trades(sums.last_id, 1)[0].at_ms, sums)
        for open_ms, sums in zip(opens, rows, strict=False)
        if sums.trades
    ]


def row(instrument: Instrument, period: Period, candle: Candle, converts: bool = False) -> str:
    """A candle in the format of REST."""
    spelling, sums = instrument.spelling, candle.sums
    text = (
        f'{{"market":"{instrument.code}","candle_date_time_utc":"{utc(candle.open_ms)}",'
        f'"candle_date_time_kst":"{kst(candle.open_ms)}",'
        f'"opening_price":{spelling.price(sums.open)},"high_price":{spelling.price(sums.high)},'
        f'"low_price":{spelling.price(sums.low)},"trade_price":{spelling.price(sums.close)},'
        f'"timestamp":{candle.last_ms},"candle_acc_trade_price":{spelling.amount(sums.quote)},'
        f'"candle_acc_trade_volume":{spelling.volume(sums.volume)}'
    )
    if period.kind == "minutes":
        return f'{text},"unit":{period.unit}}}'
    if period.kind == "days":
        return f"{text},{_day(instrument, candle, converts)}}}"
    if period.kind == "seconds":
        return f"{text}}}"
    return f'{text},"first_day_of_period":"{utc(candle.open_ms)[:10]}"}}'


def _day(instrument: Instrument, candle: Candle, converts: bool) -> str:
    spelling, close = instrument.spelling, candle.sums.close
    before = closing_price(instrument, candle.open_ms)
    change = close - before
    text = (
        f'"prev_closing_price":{spelling.price(before)},"change_price":{spelling.price(change)},'
        f'"change_rate":{rest_number(rate(change, before), RATE_DECIMALS)}'
    )
    if not converts:
        return text
    is_won = instrument.market.listing.quote == "KRW"
    return f'{text},"converted_trade_price":{spelling.price(close) if is_won else "null"}'


def closing_price(instrument: Instrument, at_ms: int) -> int:
    """The last price of the previous day; on the first day, the price at listing."""
    return instrument.market.last_before(at_ms - at_ms % DAY_MS).price
