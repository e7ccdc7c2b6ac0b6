"""Coinbase's REST requests as data, and readers of their responses.

Responses are newest first and are reversed here. Events have ``source="rest"``, or ``"backfill"``
where a caller fills a gap. Each structure quotes the response it reads.
"""

from collections.abc import Sequence
from typing import Annotated, TypeVar
from urllib.parse import quote

from msgspec import Meta, Struct, field

from penstock.exchanges.answers import Text, Whole
from penstock.exchanges.base import ApiError, MarketProgress, Request, TradePage
from penstock.exchanges.coinbase.payloads import TAKER
from penstock.exchanges.coinbase.symbols import NAME
from penstock.exchanges.frames import Number, spelled_out, spelled_out_all
from penstock.exchanges.progress import levels, progress_request
from penstock.exchanges.resource import Params, Resource, error_reader
from penstock.exchanges.rest_rows import (
    BookRows,
    CandleRows,
    LevelBook,
    TradeRows,
    candle_page,
    of_listed,
    sides_of,
)
from penstock.exchanges.rows import REST, CandleRow, TickerRow, ticker_of, ticker_with
from penstock.exchanges.symbol_map import SymbolMap
from penstock.exchanges.times import MS_NS, epoch_ns, iso_text
from penstock.market.events import BookSnapshot, Candle, Side, Source, Ticker, Trade
from penstock.market.interval import Interval
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


class _Book(LevelBook):
    """GET /products/{id}/book?level=2

    {"sequence":1924393896,"bids":[["0.01825","24.34811287",2],…],"asks":[…],"auction_mode":false,
     "auction":null,"time":"2026-01-07T23:47:25.201345Z"}
    """

    time: str | None = None


class _Trade(Struct, kw_only=True):
    """An element of the response to GET /products/{id}/trades; the side is the maker's

    {"trade_id":280232,"side":"sell","size":"985","price":"0.00001305",
     "time":"2021-04-17T16:43:37.089723Z"}
    """

    id: Whole = field(name="trade_id")
    side: Side
    quantity: Text = field(name="size")
    price: Text
    time: str


class _Candle(CandleRow, Struct, array_like=True):
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


class _Ticker(TickerRow, Struct, kw_only=True):
    """GET /products/{id}/ticker

    {"trade_id":843439,"price":"0.997999","size":"80.29769","time":"2020-01-28T02:13:33.012523Z",
     "bid":"0.997094","ask":"0.998","volume":"1903188.03750000"}
    """

    trade_id: Whole
    last: Text = field(name="price")
    time: str
    bid: Text
    ask: Text
    volume: Text


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
    """{"message":"NotFound"}, without a code"""

    message: str


_BOOK = Resource("/products/{}/book", _Book)
_TRADES = Resource("/products/{}/trades", list[_Trade])
_CANDLES = Resource("/products/{}/candles", list[_Candle], bare_numbers=True)
_TICKER = Resource("/products/{}/ticker", _Ticker)
_SPARKS = Resource("/products/spark-lines", dict[str, list[_Spark]], bare_numbers=True)
PAGED = (_TRADES.paged("trades", PAGE), _CANDLES.paged("candles", CANDLES_PER_PAGE))
read_api_error = error_reader(_ApiError, lambda error: ApiError(error.message, error.message))

_books = BookRows[_Book](
    NAME, sides_of, lambda book: None if book.time is None else epoch_ns(book.time)
)
_trades = TradeRows[_Trade](
    NAME,
    at_ns=lambda row: epoch_ns(row.time),
    taker=lambda row: TAKER[row.side],
    newest_first=True,
)
_candles = CandleRows[_Candle](
    NAME, GRANULARITIES, lambda row: row.open_s * 1000, spelled_out_all, newest_first=True
)

TIME = Resource("/time", _Time).request(lambda answer, _at_ns: epoch_ns(answer.iso) // MS_NS)


class CoinbaseRest:
    """Requests to Coinbase Exchange. See ``Rest``."""

    def __init__(self, symbols: SymbolMap) -> None:
        self._symbols = symbols

    def book(self, symbol: Symbol, depth: int = PAGE) -> Request[BookSnapshot]:
        """The whole book, or its best level; it cannot be joined with the stream's books."""
        level = 1 if depth <= 1 else 2
        return _BOOK.request(_books.reader(symbol), {"level": level}, of=self._native(symbol))

    def recent_trades(self, symbol: Symbol, limit: int = PAGE) -> Request[list[Trade]]:
        """The newest trades, at most a page."""
        params: Params = {"limit": max(1, min(limit, PAGE))}
        return _TRADES.request(_trades.reader(symbol), params, of=self._native(symbol))

    def trades(
        self, symbol: Symbol, cursor: int, source: Source = "backfill"
    ) -> Request[TradePage]:
        """The page of trades before the one whose id is the cursor."""
        make = _trades.page_reader(symbol, source, cursor, lambda trades: trades[0].id)
        params: Params = {"after": cursor, "limit": PAGE}
        return _TRADES.request(make, params, of=self._native(symbol))

    def candles(
        self, symbol: Symbol, interval: Interval, start_ms: int, end_ms: int
    ) -> Request[list[Candle]]:
        """A page of candles that begin in [start, end): of its first 300 those with trades.

        The last may still be running.
        """
        # The response may have candles before the start too, which the reader drops.
        make = _candles.reader(symbol, interval, start_ms, end_ms)
        granularity = GRANULARITIES[interval.text]
        first_ms, count = candle_page(interval, start_ms, end_ms, CANDLES_PER_PAGE)
        params: Params = {
            "granularity": granularity,
            "start": iso_text(first_ms),
            # It is included, so 300 candles are 299 steps.
            "end": iso_text(first_ms + (count - 1) * granularity * 1000),
        }
        return _CANDLES.request(make, params, of=self._native(symbol))

    def tickers(self, symbols: Sequence[Symbol] = ()) -> Request[list[Ticker]]:
        """The ticker of one market; of several, or of all if none is given, only the last price."""
        if len(symbols) == 1:
            return self._ticker(symbols[0])
        wanted = {self._symbols.native(symbol) for symbol in symbols}

        def make(sparks: dict[str, list[_Spark]], received_at_ns: int) -> list[Ticker]:
            # Only the newest price: the rest of a row covers less than a day.
            newest = [
                (native, sparks[native][0].close)
                for native in sparks
                if sparks[native] and (not wanted or native in wanted)
            ]
            return [
                ticker_with((NAME, symbol, received_at_ns, REST), spelled_out, last=price)
                for (_, price), symbol in of_listed(self._symbols, newest, lambda it: it[0])
            ]

        return _SPARKS.request(make)

    def latest(self, symbol: Symbol, channel: str) -> Request[MarketProgress]:
        """The newest trade's id, or the best level of a book."""
        if channel == "book_deltas":
            return progress_request(self.book(symbol, 1), levels)

        def make(row: _Ticker, _received_at_ns: int) -> MarketProgress:
            return MarketProgress(str(row.trade_id), row.trade_id if channel == "trades" else None)

        return _TICKER.request(make, of=self._native(symbol))

    def _ticker(self, symbol: Symbol) -> Request[list[Ticker]]:
        def make(row: _Ticker, received_at_ns: int) -> list[Ticker]:
            origin = NAME, symbol, received_at_ns, REST
            return [ticker_of(row, origin, epoch_ns(row.time))]

        return _TICKER.request(make, of=self._native(symbol))

    def _native(self, symbol: Symbol) -> str:
        return quote(self._symbols.native(symbol), safe="")
