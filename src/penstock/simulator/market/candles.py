"""Computes candles from aggregates of trades.

An aggregate holds prices as offsets from the price before its first trade. Since the sum of
``(price + offset) * quantity`` is ``price * volume + turnover``, a candle takes a few
multiplications, however many trades it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

CELL = 10
"""Numbers per aggregate in a tier's cells."""

Piece = tuple[Sequence[int], int, int]
"""An aggregate, its price factor and its quantity factor."""


class Sums(NamedTuple):
    """The values of a candle; without trades, flat at the previous price, with ids of -1."""

    open: int
    high: int
    low: int
    close: int
    volume: int
    quote: int
    """Ticks times lots."""
    taker_volume: int
    taker_quote: int
    trades: int
    first_id: int
    last_id: int


_sums = partial(tuple.__new__, Sums)


def candle_of(cell: Sequence[int], k: int, g: int, price: int, next_id: int) -> Sums:
    """The candle of one aggregate; ``price`` is the last price before it."""
    n, _, volume, turnover, taker, taker_turnover, first, last, high, low = cell
    if not n:
        return _sums((price, price, price, price, 0, 0, 0, 0, 0, -1, -1))
    if k < 0:
        high, low = low, high
        taker, taker_turnover = volume - taker, turnover - taker_turnover
    volume *= g
    taker *= g
    return _sums(
        (
            price + first * k,
            price + high * k,
            price + low * k,
            price + last * k,
            volume,
            price * volume + turnover * k * g,
            taker,
            price * taker + taker_turnover * k * g,
            n,
            next_id,
            next_id + n - 1,
        )
    )


def candle_across(pieces: Iterable[Piece], price: int, next_id: int) -> Sums:
    """The candle of consecutive aggregates."""
    opened, highest, lowest = None, price, price
    n = volume = quote = taker = taker_quote = 0
    for cell, k, g in pieces:
        m, _, v, d, tv, td, first, last, high, low = cell
        if not m:
            continue
        if k < 0:
            high, low, tv, td = low, high, v - tv, d - td
        high = price + high * k
        low = price + low * k
        if opened is None:
            opened, highest, lowest = price + first * k, high, low
        if high > highest:  # noqa: PLR1730 - a call per day would cost a page a millisecond
            highest = high
        if low < lowest:  # noqa: PLR1730
            lowest = low
        n += m
        volume += v * g
        quote += (price * v + d * k) * g
        taker += tv * g
        taker_quote += (price * tv + td * k) * g
        price += last * k
    if opened is None:
        return Sums(price, price, price, price, 0, 0, 0, 0, 0, -1, -1)
    ids = (next_id, next_id + n - 1)
    return Sums(opened, highest, lowest, price, volume, quote, taker, taker_quote, n, *ids)


def joined(candles: Sequence[Sums]) -> Sums:
    """The candle of consecutive candles."""
    traded = [each for each in candles if each.trades]
    if not traded:
        return candles[-1]
    return Sums(
        open=traded[0].open,
        high=max([each.high for each in traded]),
        low=min([each.low for each in traded]),
        close=traded[-1].close,
        volume=sum([each.volume for each in traded]),
        quote=sum([each.quote for each in traded]),
        taker_volume=sum([each.taker_volume for each in traded]),
        taker_quote=sum([each.taker_quote for each in traded]),
        trades=sum([each.trades for each in traded]),
        first_id=traded[0].first_id,
        last_id=traded[-1].last_id,
    )
