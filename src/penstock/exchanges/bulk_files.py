"""Describes the files of old trades and candles that an exchange publishes. Does no I/O.

A file has the records of one market in one UTC day or month. It is a zip with one CSV file; beside
it is a ``.CHECKSUM`` with its SHA-256. Where they are published, they spare thousands of requests.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, Literal, NamedTuple, TypeVar

from msgspec import ValidationError

from penstock.exchanges.answers import plain_number, plain_numbers
from penstock.exchanges.rows import REST, CandleRow, candle_of
from penstock.market.events import Candle, Event, Trade
from penstock.market.interval import DAY_MS, Interval
from penstock.market.symbol import Symbol

R = TypeVar("R", bound=Event)
Frequency = Literal["daily", "monthly"]

_MONTH = Interval.parse("1M")
# A native symbol is part of the path. Whatever an exchange lists, it stays in its folder.
_SAFE = re.compile(r"[^/\\\x00-\x1f.][^/\\\x00-\x1f]*").fullmatch
# Times may be in ms or in µs; only their size distinguishes them.
_LEAST_MICROSECONDS = 10**14
_MOST_DIGITS = 18


class FileSpan(NamedTuple):
    """A UTC day or month."""

    frequency: Frequency
    since_ms: int
    until_ms: int

    @property
    def date(self) -> str:
        form = "%Y-%m-%d" if self.frequency == "daily" else "%Y-%m"
        return datetime.fromtimestamp(self.since_ms // 1000, UTC).strftime(form)


class BulkFile(NamedTuple):
    """One published file."""

    path: str
    """Below the address or folder of all files, with slashes."""
    since_ms: int
    until_ms: int
    """The file has all records of this time, the end not included."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def member(self) -> str:
        """The name of the only file in the zip."""
        return f"{self.name.removesuffix('.zip')}.csv"

    @property
    def checksum_path(self) -> str:
        return f"{self.path}.CHECKSUM"


@dataclass(frozen=True)
class FileSeries(Generic[R]):
    """The files of one market's trades, or of its candles of one length."""

    path: Callable[[FileSpan], str]
    read: Callable[[Sequence[str], int], R]
    """(values of a row, received_at_ns) → record. Raises ValueError or UnexpectedAnswer."""
    position: Callable[[R], int]
    """Increases from row to row."""

    def file(self, span: FileSpan) -> BulkFile:
        """The file of a day or month, which may not exist."""
        return BulkFile(self.path(span), span.since_ms, span.until_ms)


@dataclass(frozen=True)
class BulkFiles:
    """All files that an exchange publishes, as paths and columns."""

    exchange: str
    trades_path: str
    """With ``{native}`` for the market, ``{frequency}`` and ``{date}`` for the day or month."""
    trade_columns: Sequence[str]
    """Names of the values of a row. ``id``, ``price``, ``quantity``, ``at`` and ``maker_bought``
    are read."""
    candles_path: str
    """The same, with ``{interval}``."""
    candle_columns: Sequence[str]
    """The same. ``open_ms``, ``close_ms`` (in either unit), ``trades`` and the other fields of a
    ``CandleRow`` are read."""

    def trades(self, native: str, symbol: Symbol) -> FileSeries[Trade] | None:
        """The files of a market's trades, by its native name; None if there can be none."""
        if not _SAFE(native):
            return None
        return FileSeries(
            lambda span: _path(self.trades_path, span, native),
            _trade_reader(self.exchange, self.trade_columns, symbol),
            lambda trade: trade.id,
        )

    def candles(self, native: str, symbol: Symbol, interval: Interval) -> FileSeries[Candle] | None:
        """The files of a market's candles, of lengths that divide a day; None for others."""
        length_ms = interval.fixed_ms
        if not _SAFE(native) or length_ms is None or DAY_MS % length_ms:
            return None
        return FileSeries(
            lambda span: _path(self.candles_path, span, native, interval),
            _candle_reader(self.exchange, self.candle_columns, symbol, interval),
            lambda candle: candle.open_ms,
        )


class _CandleValues(CandleRow):
    """A row of a file, with its values by column."""

    open_ms: str


def _trade_reader(
    exchange: str, columns: Sequence[str], symbol: Symbol
) -> Callable[[Sequence[str], int], Trade]:
    # Of millions of rows, so places are looked up once.
    names = "id", "price", "quantity", "at", "maker_bought"
    number, price, quantity, at, maker_bought = map(columns.index, names)

    def read(values: Sequence[str], received_at_ns: int) -> Trade:
        _check_count(values, columns)
        return Trade(
            exchange=exchange,
            symbol=symbol,
            received_at_ns=received_at_ns,
            source="backfill",
            id=whole_number(values[number]),
            at_ns=instant_us(values[at]) * 1000,
            price_text=plain_number(values[price]),
            quantity_text=plain_number(values[quantity]),
            taker="sell" if is_true(values[maker_bought]) else "buy",
        )

    return read


def _candle_reader(
    exchange: str, columns: Sequence[str], symbol: Symbol, interval: Interval
) -> Callable[[Sequence[str], int], Candle]:
    """Candles equal to those that a request returns, all of them closed."""

    def read(values: Sequence[str], received_at_ns: int) -> Candle:
        _check_count(values, columns)
        row = _CandleValues()
        vars(row).update(zip(columns, values, strict=True))
        open_ms, row.close_ms = instant_us(row.open_ms) // 1000, instant_us(row.close_ms) // 1000
        row.trades = whole_number(row.trades)
        origin = exchange, symbol, received_at_ns, REST
        return candle_of(row, origin, interval, open_ms, closed=True, spell=plain_numbers)

    return read


def _check_count(values: Sequence[str], columns: Sequence[str]) -> None:
    if len(values) != len(columns):
        raise ValidationError(f"it has {len(values)} values instead of {len(columns)}")


def _path(form: str, span: FileSpan, native: str, interval: Interval | None = None) -> str:
    named = {"frequency": span.frequency, "date": span.date, "interval": interval}
    return form.format(native=native, **named)


def months(since_ms: int, until_ms: int) -> Iterator[FileSpan]:
    """All months that a range of time touches."""
    open_ms = _MONTH.open_of(since_ms)
    while open_ms < until_ms:
        next_ms = _MONTH.next_open(open_ms)
        yield FileSpan("monthly", open_ms, next_ms)
        open_ms = next_ms


def whole_days(since_ms: int, until_ms: int) -> Iterator[FileSpan]:
    """All days that are wholly within a range of time."""
    for open_ms in range(-(-since_ms // DAY_MS) * DAY_MS, until_ms - DAY_MS + 1, DAY_MS):
        yield FileSpan("daily", open_ms, open_ms + DAY_MS)


def whole_number(text: str) -> int:
    """A number of a row.

    Raises:
        ValidationError: it is not a whole number that fits into 64 bits.
    """
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise ValidationError(f"{text[:40]!r} is not a whole number")
    return int(text)


def instant_us(text: str) -> int:
    """A time in ms or µs since 1970, as µs.

    Raises:
        ValidationError: it is not a whole number.
    """
    number = whole_number(text)
    return number if number >= _LEAST_MICROSECONDS else number * 1000


def is_true(text: str) -> bool:
    """A truth value of a row.

    Raises:
        ValidationError: it is neither true nor false.
    """
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ValidationError(f"{text[:40]!r} is neither True nor False")
