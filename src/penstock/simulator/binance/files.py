"""Serves the daily and monthly files of trades and candles that Binance publishes.

A file has the rows of one symbol in one UTC day or month: a zip with one CSV file, without a
header, and beside it a ``.CHECKSUM``. It appears when its day or month is over. Times are in
milliseconds before 2025, and in microseconds since.
"""

import re
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from io import BytesIO
from typing import NamedTuple

import msgspec

from penstock.simulator.binance.instrument import Instrument
from penstock.simulator.binance.periods import DAY_MS, LENGTHS_MS, Period
from penstock.simulator.binance.rest import klines
from penstock.simulator.binance.units import MICROSECOND, MILLISECOND, TimeUnit
from penstock.simulator.engine.exchange import Asked, Refused, Reply, Route
from penstock.simulator.market.pieces import PIECE, Work

TRADES = "/data/spot/{frequency}/trades/{symbol}/{file}"
KLINES = "/data/spot/{frequency}/klines/{symbol}/{interval}/{file}"
CHECKSUM = ".CHECKSUM"
_MICROSECONDS_FROM = date(2025, 1, 1)
_DATES = {
    "daily": re.compile(r"\d{4}-\d\d-\d\d", re.ASCII),
    "monthly": re.compile(r"\d{4}-\d\d", re.ASCII),
}
_KEPT_BYTES = 64_000_000
_WRITTEN = (1980, 1, 1, 0, 0, 0)
"""Every file has this time in it, so that its bytes depend on nothing but its rows."""


class _Span(NamedTuple):
    first: date
    since_ms: int
    until_ms: int


class Files:
    """The routes of all files, and the latest files built."""

    def __init__(self, by_unit: Mapping[TimeUnit, Sequence[Instrument]]) -> None:
        self._by_unit = {
            unit: {each.symbol: each for each in found} for unit, found in by_unit.items()
        }
        self._built: OrderedDict[str, bytes] = OrderedDict()

    def routes(self) -> dict[str, Route]:
        """All routes by path."""
        return {
            path: Route(path, lambda _query: 0, self._answer, is_counted=False)
            for path in (TRADES, KLINES)
        }

    def _answer(self, asked: Asked, as_of_ms: int) -> Reply | Work[bytes]:
        query = asked.query
        symbol, kind = query["symbol"], query.get("interval", "trades")
        is_sum = query["file"].endswith(CHECKSUM)
        name = query["file"].removesuffix(CHECKSUM)
        match = re.fullmatch(rf"{re.escape(symbol)}-{re.escape(kind)}-([0-9-]+)\.zip", name)
        span = _span(query["frequency"], match[1]) if match else None
        unit = MICROSECOND if span and span.first >= _MICROSECONDS_FROM else MILLISECOND
        instrument = self._by_unit[unit].get(symbol)
        known = kind == "trades" or 0 < LENGTHS_MS.get(kind, 0) <= DAY_MS
        if span is None or instrument is None or not known:
            raise Refused(_MISSING)
        if span.until_ms > as_of_ms or span.until_ms <= instrument.listed_at_ms:
            raise Refused(_MISSING)
        return self._body(name, kind, instrument, span, is_sum)

    def _body(
        self, name: str, kind: str, instrument: Instrument, span: _Span, is_sum: bool
    ) -> Work[bytes]:
        data = self._built.pop(name, None)
        if data is None:
            data = yield from _zipped(name.removesuffix(".zip"), _pieces(kind, instrument, span))
        self._built[name] = data
        while len(self._built) > 1 and sum(map(len, self._built.values())) > _KEPT_BYTES:
            self._built.popitem(last=False)
        return f"{sha256(data).hexdigest()}  {name}\n".encode() if is_sum else data


_MISSING = Reply(
    b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>NoSuchKey</Code>'
    b"<Message>The specified key does not exist.</Message></Error>",
    status=404,
    content_type="application/xml",
)


def _span(frequency: str, text: str) -> _Span | None:
    form = _DATES.get(frequency)
    if form is None or not form.fullmatch(text):
        return None
    try:
        first = date.fromisoformat(text if frequency == "daily" else f"{text}-01")
    except ValueError:
        return None
    if frequency == "daily":
        return _Span(first, _ms(first), _ms(first + timedelta(1)))
    return _Span(first, _ms(first), _ms((first + timedelta(31)).replace(day=1)))


def _ms(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000


def _pieces(kind: str, instrument: Instrument, span: _Span) -> Iterator[list[str]]:
    since_ms = max(span.since_ms, instrument.listed_at_ms)
    if kind == "trades":
        market = instrument.market
        first, end = market.id_at(since_ms), market.id_at(span.until_ms)
        for at in range(first, end, PIECE):
            page = instrument.spelling.trades(market.trades(at, min(PIECE, end - at)))
            yield [_trade_line(row) for row in msgspec.json.decode(page)]
        return
    period = Period(kind)
    numbers = range(period.number(since_ms), period.number(span.until_ms))
    for at in range(0, len(numbers), PIECE):
        rows = klines(instrument, period, numbers[at : at + PIECE], span.until_ms)
        page = instrument.spelling.klines(rows)
        yield [",".join(map(str, row)) for row in msgspec.json.decode(page)]


def _trade_line(row: Mapping[str, object]) -> str:
    return "{id},{price},{qty},{quoteQty},{time},{isBuyerMaker},{isBestMatch}".format_map(row)


def _zipped(name: str, pieces: Iterator[list[str]]) -> Work[bytes]:
    target = BytesIO()
    info = zipfile.ZipInfo(f"{name}.csv", _WRITTEN)
    info.compress_type = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(target, "w") as archive, archive.open(info, "w") as member:
        for lines in pieces:
            member.write("".join(f"{line}\n" for line in lines).encode())
            yield
    return target.getvalue()
