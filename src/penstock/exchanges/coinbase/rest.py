"""Coinbase's REST requests as data, and readers of their responses.

Responses are newest first and are reversed here. Events have ``source="rest"``, or ``"backfill"``
where a caller fills a gap. Each structure quotes the response it reads.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Annotated, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Meta, Raw, Struct

from penstock.errors import UnknownInterval
from penstock.exchanges.answers import (
    UNREADABLE,
    Text,
    Whole,
    decoded,
    plain_number,
    surely_over_ms,
)
from penstock.exchanges.base import ApiError, MarketProgress, Request, SymbolMap, TradePage
from penstock.exchanges.coinbase.payloads import TAKER
from penstock.exchanges.coinbase.symbols import NAME, read_info
from penstock.exchanges.frames import Number, spelled_out
from penstock.exchanges.progress import levels, progress_request
from penstock.exchanges.times import MS_NS, epoch_ns
from penstock.market.events import BookSnapshot, Candle, Side, Source, Ticker, Trade
from penstock.market.interval import Interval
from penstock.market.levels import write_levels
from penstock.market.symbol import Symbol

PAGE = 1000
"""The most trades in one response."""
CANDLES_PER_PAGE = 300
"""A request for a range that could have more is rejected."""
GRANULARITIES = {"1m": 60, "5m": 300, "15m": 900, "1h": 3600, "6h": 21_600, "1d": 86_400}
"""Seconds by interval."""
OPENED_MS = 1_417_392_000_000
"""2014-12-01: the public opening was in January 2015, its first trades some weeks earlier."""

R = TypeVar("R")


class _Time(Struct):
    """GET /time → {"iso":"2026-01-07T23:47:25.201Z","epoch":1767829645.201}"""

    iso: str


class _Level(Struct, array_like=True):
    """["0.01825","24.34811287",2]: price, size, number of orders"""

    price: Text
    size: Text


class _Book(Struct):
    """GET /products/{id}/book?level=2

    {"sequence":1924393896,"bids":[["0.01825","24.34811287",2],…],"asks":[…],"auction_mode":false,
     "auction":null,"time":"2026-01-07T23:47:25.201345Z"}
    """

    bids: list[_Level]
    asks: list[_Level]
    time: str | None = None


class _Trade(Struct):
    """An element of the response to GET /products/{id}/trades; the side is the maker's

    {"trade_id":280232,"side":"sell","size":"985","price":"0.00001305",
     "time":"2021-04-17T16:43:37.089723Z"}
    """

    trade_id: Whole
    side: Side
    size: Text
    price: Text
    time: str


class _Candle(Struct, array_like=True):
    """A row of the response to GET /products/{id}/candles

    Open time (s), low, high, open, close, volume:
    [1517443740,10106,10120.21,10106.01,10120.21,2.85107455]
    """

    open_s: Annotated[int, Meta(ge=0, le=1 << 40)]
    low: Number
    high: Number
    open: Number
    close: Number
    volume: Number


class _Ticker(Struct):
    """GET /products/{id}/ticker

    {"trade_id":843439,"price":"0.997999","size":"80.29769","time":"2020-01-28T02:13:33.012523Z",
     "bid":"0.997094","ask":"0.998","volume":"1903188.03750000"}
    """

    price: Text
    time: str
    bid: Text
    ask: Text
    volume: Text


class _Latest(Struct):
    """The field of that response that changes with every trade."""

    trade_id: Whole


class _Spark(Struct, array_like=True):
    """A row of GET /products/spark-lines, which has rows by product, newest first

    Open time (s), low, high, open, close:
    {"BTC-USD":[[1639472400,4.26,4.38,4.35,4.27],[1639468800,4.31,4.45,4.35,4.35],…],…}
    """

    open_s: Number
    low: Number
    high: Number
    open: Number
    close: Number


class _ApiError(Struct):
    """{"message":"NotFound"}"""

    message: str


_decode_time = msgspec.json.Decoder(_Time).decode
_decode_book = msgspec.json.Decoder(_Book).decode
_decode_trades = msgspec.json.Decoder(list[_Trade]).decode
_decode_candles = msgspec.json.Decoder(list[_Candle], float_hook=str).decode
_decode_ticker = msgspec.json.Decoder(_Ticker).decode
_decode_latest = msgspec.json.Decoder(_Latest).decode
_decode_sparks = msgspec.json.Decoder(dict[str, list[_Spark]], float_hook=str).decode
_decode_api_error = msgspec.json.Decoder(_ApiError).decode


def read_api_error(body: bytes) -> ApiError | None:
    """The error in a response, which has no code; None if the body is HTML or the like."""
    try:
        words = _decode_api_error(body).message
    except UNREADABLE:
        return None
    return ApiError(words, words)


def _read_time(body: bytes) -> int:
    return epoch_ns(_decode_time(body).iso) // MS_NS


TIME: Request[int] = Request("/time", cost=1, read=lambda body, _at_ns: decoded(_read_time, body))
INFO = Request("/products", cost=1, read=read_info)


class CoinbaseRest:
    """Requests to Coinbase Exchange. See ``Rest``."""

    def __init__(self, symbols: SymbolMap) -> None:
        self._symbols = symbols

    def book(self, symbol: Symbol, depth: int = PAGE) -> Request[BookSnapshot]:
        """The whole book, or its best level; it cannot be joined with the stream's books."""

        def read(body: bytes, received_at_ns: int) -> BookSnapshot:
            data = decoded(_decode_book, body)
            return BookSnapshot(
                exchange=NAME,
                symbol=symbol,
                received_at_ns=received_at_ns,
                source="rest",
                at_ns=None if data.time is None else epoch_ns(data.time),
                bids_raw=_levels(data.bids),
                asks_raw=_levels(data.asks),
            )

        return self._request_for(symbol, "book", read, level=1 if depth <= 1 else 2)

    def recent_trades(self, symbol: Symbol, limit: int = PAGE) -> Request[list[Trade]]:
        """The newest trades, at most a page."""
        read = _trades_reader(symbol, "rest")
        return self._request_for(symbol, "trades", read, limit=max(1, min(limit, PAGE)))

    def trades(
        self, symbol: Symbol, cursor: int, source: Source = "backfill"
    ) -> Request[TradePage]:
        """The page of trades before the one whose id is the cursor."""
        read_trades = _trades_reader(symbol, source)

        def read(body: bytes, received_at_ns: int) -> TradePage:
            trades = read_trades(body, received_at_ns)
            return TradePage(trades, trades[0].id if trades else cursor)

        return self._request_for(symbol, "trades", read, after=cursor, limit=PAGE)

    def candles(
        self, symbol: Symbol, interval: Interval, start_ms: int, end_ms: int
    ) -> Request[list[Candle]]:
        """A page of candles that begin in [start, end): of its first 300 those with trades.

        The last may still be running.
        """
        granularity = GRANULARITIES.get(interval.text)
        if granularity is None:
            raise UnknownInterval(interval.text, GRANULARITIES)
        step_ms = granularity * 1000
        first_ms = -(-start_ms // step_ms) * step_ms
        # Both ends are included, so 300 candles are 299 steps.
        last_ms = min(end_ms - 1, first_ms + (CANDLES_PER_PAGE - 1) * step_ms)
        last_ms = max(first_ms, last_ms // step_ms * step_ms)

        def read(body: bytes, received_at_ns: int) -> list[Candle]:
            candles = decoded(lambda it: _read_candles(it, symbol, interval, received_at_ns), body)
            # The response may have candles before the start too.
            return [each for each in candles if start_ms <= each.open_ms < end_ms]

        start, end = _iso(first_ms), _iso(last_ms)
        return self._request_for(
            symbol, "candles", read, granularity=granularity, start=start, end=end
        )

    def tickers(self, symbols: Sequence[Symbol] = ()) -> Request[list[Ticker]]:
        """The ticker of one market; of several, or of all if none is given, only the last price."""
        if len(symbols) == 1:
            return self._ticker(symbols[0])
        wanted = {self._symbols.native(symbol) for symbol in symbols}

        def read(body: bytes, received_at_ns: int) -> list[Ticker]:
            return decoded(lambda it: self._read_sparks(it, wanted, received_at_ns), body)

        return Request("/products/spark-lines", cost=1, read=read)

    def latest(self, symbol: Symbol, channel: str) -> Request[MarketProgress]:
        """The newest trade's id, or the best level of a book."""
        if channel == "book_deltas":
            return progress_request(self.book(symbol, 1), levels)

        def read(body: bytes, _received_at_ns: int) -> MarketProgress:
            trade_id = decoded(_decode_latest, body).trade_id
            return MarketProgress(str(trade_id), trade_id if channel == "trades" else None)

        return self._request_for(symbol, "ticker", read)

    def _ticker(self, symbol: Symbol) -> Request[list[Ticker]]:
        def read(body: bytes, received_at_ns: int) -> list[Ticker]:
            data = decoded(_decode_ticker, body)
            ticker = Ticker(
                exchange=NAME,
                symbol=symbol,
                received_at_ns=received_at_ns,
                source="rest",
                at_ns=epoch_ns(data.time),
                bid_text=plain_number(data.bid),
                ask_text=plain_number(data.ask),
                last_text=plain_number(data.price),
                volume_text=plain_number(data.volume),
            )
            return [ticker]

        return self._request_for(symbol, "ticker", read)

    def _read_sparks(self, body: bytes, wanted: set[str], received_at_ns: int) -> list[Ticker]:
        """The newest price of each market; the rest of a row covers less than a day."""
        # A market listed after the map was made is skipped; it must not hide the others.
        listed = [
            (rows[0], symbol)
            for native, rows in _decode_sparks(body).items()
            if rows and (not wanted or native in wanted) and (symbol := self._symbols.get(native))
        ]
        return [
            Ticker(
                exchange=NAME,
                symbol=symbol,
                received_at_ns=received_at_ns,
                source="rest",
                last_text=spelled_out(row.close),
            )
            for row, symbol in listed
        ]

    def _request_for(
        self, symbol: Symbol, what: str, read: Callable[[bytes, int], R], **params: str | int
    ) -> Request[R]:
        native = quote(self._symbols.native(symbol), safe="")
        return Request(f"/products/{native}/{what}", 1, read, params)


def _trades_reader(symbol: Symbol, source: Source) -> Callable[[bytes, int], list[Trade]]:
    def read(body: bytes, received_at_ns: int) -> list[Trade]:
        return [
            Trade(
                exchange=NAME,
                symbol=symbol,
                received_at_ns=received_at_ns,
                source=source,
                id=row.trade_id,
                at_ns=epoch_ns(row.time),
                price_text=plain_number(row.price),
                quantity_text=plain_number(row.size),
                taker=TAKER[row.side],
            )
            for row in reversed(decoded(_decode_trades, body))
        ]

    return read


def _read_candles(
    body: bytes, symbol: Symbol, interval: Interval, received_at_ns: int
) -> list[Candle]:
    rows = _decode_candles(body)[::-1]
    # A candle is closed if a later one follows, or if it ended long enough ago.
    over_ms = surely_over_ms(received_at_ns)
    last_s = rows[-1].open_s if rows else 0
    return [
        Candle(
            exchange=NAME,
            symbol=symbol,
            received_at_ns=received_at_ns,
            source="rest",
            interval=interval.text,
            open_ms=row.open_s * 1000,
            close_ms=(close_ms := interval.next_open(row.open_s * 1000) - 1),
            open_text=spelled_out(row.open),
            high_text=spelled_out(row.high),
            low_text=spelled_out(row.low),
            close_text=spelled_out(row.close),
            volume_text=spelled_out(row.volume),
            closed=row.open_s < last_s or close_ms < over_ms,
        )
        for row in rows
    ]


def _levels(rows: list[_Level]) -> Raw:
    return write_levels((plain_number(row.price), plain_number(row.size)) for row in rows)


def _iso(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
