"""Candles of any interval, computed from trades.

Prices and volumes are summed as exact decimals. Frames of trades may be added in any number, in the
order of time; only the candles are kept.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Literal, get_args

import polars as pl

from penstock.dataset.merging import TIME
from penstock.dataset.reading import empty_frame
from penstock.errors import BadQuery
from penstock.market.channels import CANDLES
from penstock.market.events import Candle
from penstock.market.interval import DAY_MS, FIRST_MONDAY_MS, Interval
from penstock.market.symbol import Symbol

Empty = Literal["skip", "fill", "null"]
"""What to do with intervals without trades: leave them out; repeat the last price with a volume of
zero; or give a row without prices."""

_LONGEST_MS = 3720 * DAY_MS
_MARKET = ("exchange", "symbol")
_OPEN = "open_ms"
_PRICES = ("open", "high", "low", "close")
_SUMS = ("volume", "quote_volume", "trades", "taker_buy_volume", "taker_buy_quote_volume")
_NUMBERS = (*_PRICES, *(name for name in _SUMS if name != "trades"))
_NAMES = (*_MARKET, "interval", _OPEN, *_PRICES, *_SUMS, "first_trade_id", "last_trade_id")


def check_computed(interval: Interval, empty: str) -> None:
    """Check a caller's choices.

    Raises:
        BadQuery: there is no such choice, or the interval is too long.
    """
    if (interval.fixed_ms or interval.count * 31 * DAY_MS) > _LONGEST_MS:
        raise BadQuery(f"Candles of {interval} are too long to compute: ten years at most.")
    if empty not in get_args(Empty):
        raise BadQuery(f"empty={empty!r}: use one of {', '.join(get_args(Empty))}.")


class CandleBuilder:
    """Builds the candles of one interval."""

    def __init__(self, interval: Interval) -> None:
        self._interval = interval
        self._partial: pl.DataFrame | None = None

    def add(self, trades: pl.DataFrame) -> None:
        """Add trades, which are not older than those before."""
        amount = pl.col("price") * pl.col("quantity")
        bought = pl.col("taker") == "buy"
        found = (
            trades.with_columns(_open_of(self._interval))
            .group_by(*_MARKET, _OPEN, maintain_order=True)
            .agg(
                pl.col("price").first().alias("open"),
                pl.col("price").max().alias("high"),
                pl.col("price").min().alias("low"),
                pl.col("price").last().alias("close"),
                pl.col("quantity").sum().alias("volume"),
                amount.sum().alias("quote_volume"),
                pl.len().cast(pl.Int64).alias("trades"),
                pl.col("quantity").filter(bought).sum().alias("taker_buy_volume"),
                amount.filter(bought).sum().alias("taker_buy_quote_volume"),
                pl.col("id").first().alias("first_trade_id"),
                pl.col("id").last().alias("last_trade_id"),
            )
        )
        self._partial = found if self._partial is None else _joined(self._partial, found)

    def candles(self, end_ms: int, empty: Empty) -> pl.DataFrame:
        """All candles that have closed at ``end_ms``, sorted by time."""
        if self._partial is None:
            return _EMPTY_CANDLES
        interval = self._interval
        found = self._partial.with_columns(pl.lit(interval.text).alias("interval")).select(_NAMES)
        opens = found[_OPEN].unique().to_list()
        unclosed = [each for each in opens if interval.next_open(each) > end_ms]
        found = found.filter(~pl.col(_OPEN).is_in(unclosed))
        if empty != "skip" and found.height:
            found = _with_empty(found, interval, fill=empty == "fill")
        return found.sort(_OPEN, *_MARKET)


def _open_of(interval: Interval) -> pl.Expr:
    """When the candle of a trade opens; equal to ``Interval.open_of``."""
    at_ms = pl.col(TIME) // 1_000_000
    length = interval.fixed_ms
    if length is not None:
        shift = FIRST_MONDAY_MS if interval.unit == "w" else 0
        return ((at_ms - shift) // length * length + shift).alias(_OPEN)
    at = at_ms.cast(pl.Datetime("ms"))
    month = (at.dt.year().cast(pl.Int64) - 1970) * 12 + at.dt.month().cast(pl.Int64) - 1
    first = month // interval.count * interval.count
    start = pl.datetime(1970 + first // 12, first % 12 + 1, 1, time_unit="ms")
    return start.cast(pl.Int64).alias(_OPEN)


def _joined(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """One row for each candle; a candle may have begun in the frame before."""
    return (
        pl.concat([before, after])
        .group_by(*_MARKET, _OPEN, maintain_order=True)
        .agg(
            pl.col("open").first(),
            pl.col("high").max(),
            pl.col("low").min(),
            pl.col("close").last(),
            *(pl.col(name).sum() for name in _SUMS),
            pl.col("first_trade_id").first(),
            pl.col("last_trade_id").last(),
        )
    )


def _with_empty(found: pl.DataFrame, interval: Interval, *, fill: bool) -> pl.DataFrame:
    """Add the intervals without trades between the first and the last candle of each market."""
    parts = []
    for _, sparse in found.sort(_OPEN).group_by(_MARKET, maintain_order=True):
        first, last = sparse[_OPEN][0], sparse[_OPEN][-1]
        opens = pl.DataFrame({_OPEN: list(interval.opens(first, last + 1))})
        part = opens.join(sparse, on=_OPEN, how="left").with_columns(
            pl.col(*_MARKET, "interval").forward_fill(), pl.col(*_SUMS).fill_null(0)
        )
        if fill:
            part = part.with_columns(pl.col("close").forward_fill()).with_columns(
                pl.col("open", "high", "low").fill_null(pl.col("close"))
            )
        parts.append(part.select(_NAMES))
    return pl.concat(parts)


_DECIMAL = pl.Decimal(38, 18)
_EMPTY_CANDLES = pl.DataFrame(
    schema=dict.fromkeys(_NAMES, pl.Int64)
    | dict.fromkeys((*_MARKET, "interval"), pl.String)
    | dict.fromkeys((*_PRICES, "volume", "quote_volume"), _DECIMAL)
    | dict.fromkeys(("taker_buy_volume", "taker_buy_quote_volume"), _DECIMAL)
)


def candle_rows(found: pl.DataFrame, interval: Interval) -> pl.DataFrame:
    """Candles in the columns in which the exchanges' own are stored."""
    closes = [interval.next_open(each) - 1 for each in found[_OPEN].to_list()]
    schema = empty_frame(CANDLES).schema
    frame = found.with_columns(
        pl.col(_OPEN).cast(pl.Datetime("ms", "UTC")).dt.cast_time_unit("us").alias("open_at"),
        pl.Series("close_at", closes, pl.Int64)
        .cast(pl.Datetime("ms", "UTC"))
        .dt.cast_time_unit("us"),
        (pl.col(_OPEN) * 1_000_000).alias(TIME),
        pl.lit(True).alias("closed"),
        pl.lit("computed").alias("source"),
        *map(_text_of, _NUMBERS),
    )
    absent = [name for name in schema if name not in frame.columns]
    return frame.with_columns(pl.lit(None, schema[name]).alias(name) for name in absent).select(
        pl.col(name).cast(kind) for name, kind in schema.items()
    )


def as_candles(rows: pl.DataFrame) -> Iterator[Candle]:
    """The events of computed candles that have prices."""
    for row in rows.drop_nulls("open").iter_rows(named=True):
        texts: dict[str, Any] = {f"{name}_text": _plain(row[name]) for name in _NUMBERS}
        yield Candle(
            exchange=row["exchange"],
            symbol=Symbol.parse(row["symbol"]),
            received_at_ns=0,
            interval=row["interval"],
            open_ms=row[TIME] // 1_000_000,
            close_ms=int(row["close_at"].timestamp() * 1000),
            trades=row["trades"],
            first_trade_id=row["first_trade_id"],
            last_trade_id=row["last_trade_id"],
            **texts,
        )


def _text_of(name: str) -> pl.Expr:
    text = pl.col(name).cast(pl.String).str.strip_chars_end("0").str.strip_chars_end(".")
    return text.alias(f"{name}_text")


def _plain(value: Decimal) -> str:
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def ohlcv(candles: pl.DataFrame, *, newest: bool, limit: int | None) -> list[list[float]]:
    """Candles in the shape of ccxt, at most so many: the newest, or the oldest."""
    rows = candles.drop_nulls("open").select(
        pl.col(TIME) // 1_000_000, "open", "high", "low", "close", "volume"
    )
    if limit is not None:
        rows = rows.tail(limit) if newest else rows.head(limit)
    return [list(row) for row in rows.iter_rows()]
