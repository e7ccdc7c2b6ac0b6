"""Computes a market's ticker for REST and streams: today, the last 24 hours and the year."""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.simulator.market.market import Sums, Trade
from penstock.simulator.upbit.candles import closing_price
from penstock.simulator.upbit.instrument import DAY_MS, Extremes, Instrument
from penstock.simulator.upbit.spelling import (
    RATE_DECIMALS,
    Number,
    compact,
    kst,
    rate,
    rest_number,
    utc,
)

Fields = Mapping[str, str]
"""Name → value as JSON, in order."""


@dataclass(frozen=True)
class MarketState:
    """The state of a market at a time."""

    instrument: Instrument
    at_ms: int
    last: Trade
    today: Sums
    """The sums of the current UTC day."""


def market_state(instrument: Instrument, at_ms: int) -> MarketState:
    """The state of a market at a time."""
    market, day_ms = instrument.market, at_ms - at_ms % DAY_MS
    return MarketState(
        instrument, at_ms, market.last_before(at_ms + 1), market.sums(day_ms, at_ms + 1)
    )


def rest_ticker(instrument: Instrument, as_of_ms: int) -> str:
    """An element of ``ticker``."""
    now = market_state(instrument, as_of_ms)
    date, clock = compact(utc(now.last.at_ms))
    korean_date, korean_clock = compact(kst(now.last.at_ms))
    return written(
        {
            "market": f'"{instrument.code}"',
            "trade_date": f'"{date}"',
            "trade_time": f'"{clock}"',
            "trade_date_kst": f'"{korean_date}"',
            "trade_time_kst": f'"{korean_clock}"',
            "trade_timestamp": str(now.last.at_ms),
            **prices(now, rest_number),
            **changes(now, rest_number, rest_number),
            "trade_volume": instrument.spelling.volume(now.last.quantity),
            **sums(now, rest_number),
            **year(now, rest_number),
            "timestamp": str(as_of_ms),
        }
    )


def written(fields: Fields) -> str:
    """The JSON object of fields that are JSON already."""
    return "{" + ",".join([f'"{name}":{value}' for name, value in fields.items()]) + "}"


def prices(now: MarketState, number: Number) -> Fields:
    """The day's first, highest, lowest and last price."""
    price = now.instrument.spelling.price
    return {
        "opening_price": price(now.today.open, number),
        "high_price": price(now.today.high, number),
        "low_price": price(now.today.low, number),
        "trade_price": price(now.last.price, number),
    }


def change(instrument: Instrument, price: int, at_ms: int, number: Number) -> Fields:
    """The change of a price against the last price of the previous day."""
    spell, before = instrument.spelling.price, closing_price(instrument, at_ms)
    word = "RISE" if price > before else "FALL" if price < before else "EVEN"
    return {
        "prev_closing_price": spell(before, number),
        "change": f'"{word}"',
        "change_price": spell(abs(price - before), number),
    }


def changes(now: MarketState, number: Number, finer: Number) -> Fields:
    """The change of the last price, with rates and signs; ``finer`` is the format of prices."""
    instrument, price = now.instrument, now.last.price
    before = closing_price(instrument, now.at_ms)
    part = rate(price - before, before)
    return {
        **change(instrument, price, now.at_ms, finer),
        "change_rate": number(abs(part), RATE_DECIMALS),
        "signed_change_price": instrument.spelling.price(price - before, finer),
        "signed_change_rate": number(part, RATE_DECIMALS),
    }


def sums(now: MarketState, number: Number) -> Fields:
    """The amounts and volumes of the current day and of the last 24 hours."""
    instrument, spelling = now.instrument, now.instrument.spelling
    since_ms = max(now.at_ms + 1 - DAY_MS, instrument.listed_at_ms)
    day = instrument.market.sums(since_ms, now.at_ms + 1)
    return {
        "acc_trade_price": spelling.amount(now.today.quote, number),
        "acc_trade_price_24h": spelling.amount(day.quote, number),
        "acc_trade_volume": spelling.volume(now.today.volume, number),
        "acc_trade_volume_24h": spelling.volume(day.volume, number),
    }


def year(now: MarketState, number: Number) -> Fields:
    """The highest and the lowest price of the last 52 weeks and today."""
    day_ms = now.at_ms - now.at_ms % DAY_MS
    before = now.instrument.year_before(day_ms) or Extremes(0, 0, now.today.low, day_ms)
    high, high_ms = max((now.today.high, day_ms), (before.high, before.high_ms))
    low, low_ms = min((now.today.low, day_ms), (before.low, before.low_ms))
    price = now.instrument.spelling.price
    return {
        "highest_52_week_price": price(high, number),
        "highest_52_week_date": f'"{utc(high_ms)[:10]}"',
        "lowest_52_week_price": price(low, number),
        "lowest_52_week_date": f'"{utc(low_ms)[:10]}"',
    }
