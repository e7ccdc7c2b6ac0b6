"""Binance's REST requests as data, and readers of their responses.

Costs are in ``limits.py``. Events have ``source="rest"``, or
``"backfill"`` where a caller fills a gap. Each structure quotes the response it reads.
"""

from collections.abc import Sequence

from msgspec import Struct, field

from penstock.exchanges.answers import Text, Whole, only
from penstock.exchanges.base import AggTradePage, ApiError, MarketProgress, Request, TradePage
from penstock.exchanges.binance import limits
from penstock.exchanges.binance.payloads import AggTradePayload, DepthPayload
from penstock.exchanges.binance.symbols import NAME
from penstock.exchanges.frames import json_text
from penstock.exchanges.level_formats import valid
from penstock.exchanges.paged import cost_of
from penstock.exchanges.progress import latest_update, levels, progress_request
from penstock.exchanges.resource import Params, Resource, error_reader
from penstock.exchanges.rest_rows import (
    BookRows,
    CandleRows,
    TickerRows,
    TradeRows,
    agg_page_reader,
)
from penstock.exchanges.rows import CandleRow, TickerRow, ticker_of
from penstock.exchanges.symbol_map import SymbolMap
from penstock.exchanges.times import MS_NS, Millis
from penstock.market.events import BookSnapshot, Candle, Source, Ticker, Trade
from penstock.market.interval import COMMON, Interval
from penstock.market.symbol import Symbol

PAGE = 1000
"""The most trades or candles in one response."""
DEFAULT_PAGE = 500
DEEPEST_BOOK = 5000


class _Time(Struct):
    """GET /api/v3/time → {"serverTime":1499827319559}"""

    server_ms: Whole = field(name="serverTime")


class _Trade(Struct):
    """An element of the responses to GET /api/v3/trades and /api/v3/historicalTrades

    {"id":870281750,"price":"38172.11000000","qty":"0.15000000","quoteQty":"5725.81650000",
     "time":1621933655947,"isBuyerMaker":true,"isBestMatch":true}
    """

    id: Whole
    price: Text
    quantity: Text = field(name="qty")
    at_ms: Millis = field(name="time")
    maker_bought: bool = field(name="isBuyerMaker")


class _AggTrade(AggTradePayload[str], kw_only=True):
    """An element of the response to GET /api/v3/aggTrades: the payload without a symbol"""

    native: str = field(name="s", default="")


class Kline(CandleRow, Struct, array_like=True):
    """A row of the response to GET /api/v3/klines

    [1499040000000,"0.01634790","0.80000000","0.01575800","0.01577100","148976.11427815",
     1499644799999,"2434.19055334",308,"1756.87402397","28.46694368","0"]
    """

    open_ms: Whole
    open: Text
    high: Text
    low: Text
    close: Text
    volume: Text
    close_ms: Whole
    quote_volume: Text
    trades: Whole
    taker_buy_volume: Text
    taker_buy_quote_volume: Text


class _Ticker(TickerRow, Struct):
    """An element of the response to GET /api/v3/ticker/24hr

    {"symbol":"BNBBTC","priceChange":"-94.99","priceChangePercent":"-95.960",
     "weightedAvgPrice":"0.29628482","prevClosePrice":"0.10002","lastPrice":"4.00000200",
     "lastQty":"200.0","bidPrice":"4.0","bidQty":"100.0","askPrice":"4.00000200","askQty":"100.0",
     "openPrice":"99.0","highPrice":"100.0","lowPrice":"0.1","volume":"8913.3",
     "quoteVolume":"15.3","openTime":1499783499040,"closeTime":1499869899040,"firstId":28385,
     "lastId":28460,"count":76}
    """

    native: str = field(name="symbol")
    last: Text = field(name="lastPrice")
    bid: Text = field(name="bidPrice")
    bid_quantity: Text = field(name="bidQty")
    ask: Text = field(name="askPrice")
    ask_quantity: Text = field(name="askQty")
    open: Text = field(name="openPrice")
    high: Text = field(name="highPrice")
    low: Text = field(name="lowPrice")
    volume: Text
    quote_volume: Text = field(name="quoteVolume")
    at_ms: Millis = field(name="closeTime")
    last_id: int = field(name="lastId", default=-1)
    """-1 without trades."""


class _ApiError(Struct):
    """{"code":-1121,"msg":"Invalid symbol."}; the message of a ban contains its end"""

    code: int
    msg: str


_BOOK = Resource("/api/v3/depth", DepthPayload)
_RECENT_TRADES = Resource("/api/v3/trades", list[_Trade], limits.TRADES_COST)
_OLD_TRADES = Resource("/api/v3/historicalTrades", list[_Trade], limits.TRADES_COST)
_AGG_TRADES = Resource("/api/v3/aggTrades", list[_AggTrade], limits.AGG_TRADES_COST)
_CANDLES = Resource("/api/v3/klines", list[Kline], limits.CANDLES_COST)
_TICKERS = Resource("/api/v3/ticker/24hr", list[_Ticker], limits.TICKER_COSTS[0][1])
PAGED = (
    _OLD_TRADES.paged("trades", PAGE, DEFAULT_PAGE),
    _AGG_TRADES.paged("agg_trades", PAGE, DEFAULT_PAGE),
    _CANDLES.paged("candles", PAGE, DEFAULT_PAGE),
)
read_api_error = error_reader(
    _ApiError, lambda error: ApiError(error.code, error.msg, limits.ban_end_ms(error.msg))
)

_books = BookRows[DepthPayload](
    NAME,
    sides=lambda book: (valid(book.bids), valid(book.asks)),
    update_id=lambda book: book.update_id,
)
_trades = TradeRows[_Trade](
    NAME,
    at_ns=lambda row: row.at_ms * MS_NS,
    taker=lambda row: "sell" if row.maker_bought else "buy",
)
_candles = CandleRows[Kline](NAME, COMMON, lambda row: row.open_ms, is_exact=True)
_tickers = TickerRows[_Ticker](
    NAME,
    native=lambda row: row.native,
    make=lambda row, origin: ticker_of(row, origin, row.at_ms * MS_NS),
)

TIME = Resource("/api/v3/time", _Time, limits.TIME_COST).request(
    lambda answer, _at_ns: answer.server_ms
)


class BinanceRest:
    """Requests to Binance spot. See ``Rest``."""

    def __init__(self, symbols: SymbolMap) -> None:
        self._symbols = symbols

    def book(self, symbol: Symbol, depth: int = PAGE) -> Request[BookSnapshot]:
        """The best levels, at most 5000 per side; a deeper book costs more."""
        limit = max(1, min(depth, DEEPEST_BOOK))
        params: Params = {"symbol": self._symbols.native(symbol), "limit": limit}
        cost = cost_of(limits.BOOK_COSTS, limit, limits.DEEPEST_BOOK_COST)
        return _BOOK.request(_books.reader(symbol), params, cost=cost)

    def recent_trades(self, symbol: Symbol, limit: int = PAGE) -> Request[list[Trade]]:
        """The newest trades, at most a page."""
        params: Params = {"symbol": self._symbols.native(symbol), "limit": limit}
        return _RECENT_TRADES.request(_trades.reader(symbol), params)

    def trades(
        self, symbol: Symbol, cursor: int, source: Source = "backfill"
    ) -> Request[TradePage]:
        """A page of trades that begins with the one whose id is the cursor."""
        make = _trades.page_reader(symbol, source, cursor, lambda trades: trades[-1].id + 1)
        params: Params = {"symbol": self._symbols.native(symbol), "fromId": cursor, "limit": PAGE}
        return _OLD_TRADES.request(make, params)

    def candles(
        self, symbol: Symbol, interval: Interval, start_ms: int, end_ms: int
    ) -> Request[list[Candle]]:
        """A page of candles that begin in [start, end); the last may still be running."""
        make = _candles.reader(symbol, interval, start_ms, end_ms)
        params: Params = {
            "symbol": self._symbols.native(symbol),
            "interval": interval.text,
            "startTime": start_ms,
            "endTime": end_ms - 1,  # the exchange includes the end
            "limit": PAGE,
        }
        return _CANDLES.request(make, params)

    def tickers(self, symbols: Sequence[Symbol] = ()) -> Request[list[Ticker]]:
        """The last 24 hours of these markets; of all markets if none is given."""
        make = _tickers.reader(self._symbols)
        if not symbols:
            return _TICKERS.request(make, cost=limits.ALL_TICKERS_COST)
        cost = cost_of(limits.TICKER_COSTS, len(symbols), limits.ALL_TICKERS_COST)
        return _TICKERS.request(make, self._named(symbols), cost=cost)

    def latest(self, symbol: Symbol, channel: str) -> Request[MarketProgress]:
        """The last trade's id or the best prices, for a cost of 2; a book's id or levels, for 5."""
        if channel == "book_deltas":
            return progress_request(self.book(symbol, 1), latest_update)
        if channel == "book_snapshots":
            return progress_request(self.book(symbol, 20), levels)

        def make(page: list[_Ticker], _received_at_ns: int) -> MarketProgress:
            row = only(page)
            if channel == "tickers":
                return MarketProgress(f"{row.bid} {row.bid_quantity} {row.ask} {row.ask_quantity}")
            numbered = channel in ("trades", "agg_trades")
            return MarketProgress(str(row.last_id), row.last_id if numbered else None)

        return _TICKERS.request(make, self._named([symbol]))

    def _named(self, symbols: Sequence[Symbol]) -> Params:
        return {"symbols": json_text([self._symbols.native(symbol) for symbol in symbols])}


def agg_trades(symbols: SymbolMap, symbol: Symbol, cursor: int) -> Request[AggTradePage]:
    """A page of aggregated trades that begins with the one whose id is the cursor."""
    params: Params = {"symbol": symbols.native(symbol), "fromId": cursor, "limit": PAGE}
    return _AGG_TRADES.request(agg_page_reader(NAME, symbol, cursor), params)
