"""Binance's REST requests as data, and readers of their responses.

Costs are the weights in the documentation of July 2026. Events have ``source="rest"``, or
``"backfill"`` where a caller fills a gap. Each structure quotes the response it reads.
"""

import re
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Raw, Struct, field

from penstock.errors import MalformedLevels, UnexpectedAnswer, UnknownInterval
from penstock.exchanges.answers import (
    UNREADABLE,
    Text,
    Whole,
    decoded,
    plain_number,
    surely_over_ms,
)
from penstock.exchanges.base import ApiError, MarketProgress, Request, SymbolMap, TradePage
from penstock.exchanges.binance.payloads import NAME
from penstock.exchanges.binance.symbols import read_info
from penstock.exchanges.progress import latest_update, levels, progress_request
from penstock.exchanges.times import MS_NS, Millis
from penstock.market.events import AggTrade, BookSnapshot, Candle, Source, Ticker, Trade
from penstock.market.interval import COMMON, Interval
from penstock.market.levels import all_plain_levels, read_levels
from penstock.market.symbol import Symbol

PAGE = 1000
"""The most trades, aggregates or candles in one response."""
DEEPEST_BOOK = 5000
_BOOK_COSTS = ((100, 5), (500, 25), (1000, 50), (DEEPEST_BOOK, 250))
_TICKER_COSTS = ((20, 2), (100, 40))
_ALL_TICKERS_COST = 80
_BAN_END = re.compile(r"banned until ([0-9]{10,16})")


class _Time(Struct):
    """GET /api/v3/time → {"serverTime":1499827319559}"""

    server_ms: Whole = field(name="serverTime")


class _Depth(Struct):
    """GET /api/v3/depth → {"lastUpdateId":499869752,"bids":[["0.35210000","672.00000000"]],…}"""

    update_id: Whole = field(name="lastUpdateId")
    bids: Raw
    asks: Raw


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


class _AggTrade(Struct):
    """An element of the response to GET /api/v3/aggTrades

    {"a":26129,"p":"0.01633102","q":"4.70443515","f":27781,"l":27781,"T":1498793709153,"m":true,
     "M":true}
    """

    id: Whole = field(name="a")
    price: Text = field(name="p")
    quantity: Text = field(name="q")
    first_id: Whole = field(name="f")
    last_id: Whole = field(name="l")
    at_ms: Millis = field(name="T")
    maker_bought: bool = field(name="m")


class _Candle(Struct, array_like=True):
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


class _Ticker(Struct):
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


class _Latest(Struct):
    """The fields of that element that show a market's progress; ``lastId`` is -1 without trades."""

    last_id: int = field(name="lastId")
    bid: Text = field(name="bidPrice")
    bid_quantity: Text = field(name="bidQty")
    ask: Text = field(name="askPrice")
    ask_quantity: Text = field(name="askQty")


class _ApiError(Struct):
    """{"code":-1121,"msg":"Invalid symbol."}"""

    code: int
    msg: str


_decode_time = msgspec.json.Decoder(_Time).decode
_decode_depth = msgspec.json.Decoder(_Depth).decode
_decode_trades = msgspec.json.Decoder(list[_Trade]).decode
_decode_agg_trades = msgspec.json.Decoder(list[_AggTrade]).decode
_decode_candles = msgspec.json.Decoder(list[_Candle]).decode
_decode_tickers = msgspec.json.Decoder(list[_Ticker]).decode
_decode_latest = msgspec.json.Decoder(tuple[_Latest]).decode
_decode_api_error = msgspec.json.Decoder(_ApiError).decode


def read_api_error(body: bytes) -> ApiError | None:
    """The error in a response; None if the body is HTML or the like.

    A ban contains its end: "Way too much request weight used; IP banned until 1573474564000. …"
    """
    try:
        api_error = _decode_api_error(body)
    except UNREADABLE:
        return None
    end = _BAN_END.search(api_error.msg)
    return ApiError(api_error.code, api_error.msg, int(end[1]) if end else None)


PING: Request[None] = Request("/api/v3/ping", cost=1, read=lambda _body, _at_ns: None)
TIME: Request[int] = Request(
    "/api/v3/time", cost=1, read=lambda body, _at_ns: decoded(_decode_time, body).server_ms
)
INFO = Request("/api/v3/exchangeInfo", cost=20, read=read_info)


class BinanceRest:
    """Requests to Binance spot. See ``Rest``."""

    def __init__(self, symbols: SymbolMap) -> None:
        self._symbols = symbols

    def book(
        self, symbol: Symbol, depth: int = PAGE, source: Source = "rest"
    ) -> Request[BookSnapshot]:
        """The best levels, at most 5000 per side; a deeper book costs more."""

        def read(body: bytes, received_at_ns: int) -> BookSnapshot:
            data = decoded(_decode_depth, body)
            _check_levels(data.bids)
            _check_levels(data.asks)
            return BookSnapshot(
                exchange=NAME,
                symbol=symbol,
                received_at_ns=received_at_ns,
                source=source,
                update_id=data.update_id,
                bids_raw=data.bids,
                asks_raw=data.asks,
            )

        limit = max(1, min(depth, DEEPEST_BOOK))
        params: dict[str, str | int] = {"symbol": self._symbols.native(symbol), "limit": limit}
        return Request("/api/v3/depth", cost=_step(_BOOK_COSTS, limit), read=read, params=params)

    def recent_trades(
        self, symbol: Symbol, limit: int = PAGE, source: Source = "rest"
    ) -> Request[list[Trade]]:
        """The newest trades, at most a page."""
        params: dict[str, str | int] = {"symbol": self._symbols.native(symbol), "limit": limit}
        return Request("/api/v3/trades", 25, _trades_reader(symbol, source), params)

    def trades(
        self, symbol: Symbol, cursor: int, source: Source = "backfill"
    ) -> Request[TradePage]:
        """A page of trades that begins with the one whose id is the cursor."""
        read_trades = _trades_reader(symbol, source)

        def read(body: bytes, received_at_ns: int) -> TradePage:
            trades = read_trades(body, received_at_ns)
            return TradePage(trades, trades[-1].id + 1 if trades else cursor)

        native = self._symbols.native(symbol)
        params: dict[str, str | int] = {"symbol": native, "fromId": cursor, "limit": PAGE}
        return Request("/api/v3/historicalTrades", 25, read, params)

    def agg_trades(
        self, symbol: Symbol, from_id: int, source: Source = "backfill"
    ) -> Request[list[AggTrade]]:
        """A page of aggregates that begins with ``from_id``."""
        native = self._symbols.native(symbol)
        params: dict[str, str | int] = {"symbol": native, "fromId": from_id, "limit": PAGE}
        return Request("/api/v3/aggTrades", 4, _agg_trades_reader(symbol, source), params)

    def candles(
        self, symbol: Symbol, interval: Interval, start_ms: int, end_ms: int
    ) -> Request[list[Candle]]:
        """A page of candles that begin in [start, end); the last may still be running."""
        if interval.text not in COMMON:
            raise UnknownInterval(interval.text, COMMON)
        params: dict[str, str | int] = {
            "symbol": self._symbols.native(symbol),
            "interval": interval.text,
            "startTime": start_ms,
            "endTime": end_ms - 1,  # the exchange includes the end
            "limit": PAGE,
        }
        return Request("/api/v3/klines", 2, _candles_reader(symbol, interval), params)

    def tickers(self, symbols: Sequence[Symbol] = ()) -> Request[list[Ticker]]:
        """The last 24 hours of these markets; of all markets if none is given."""
        natives = [self._symbols.native(symbol) for symbol in symbols]
        params: dict[str, str | int] = {}
        if natives:
            params["symbols"] = msgspec.json.encode(natives).decode()
        cost = _step(_TICKER_COSTS, len(natives)) if natives else _ALL_TICKERS_COST

        def read(body: bytes, received_at_ns: int) -> list[Ticker]:
            rows = decoded(_decode_tickers, body)
            # A market listed after the map was made is skipped; it must not hide the others.
            listed = [(row, self._symbols.get(row.native)) for row in rows]
            return [_ticker(row, symbol, received_at_ns) for row, symbol in listed if symbol]

        return Request("/api/v3/ticker/24hr", cost, read, params)

    def latest(self, symbol: Symbol, channel: str) -> Request[MarketProgress]:
        """The last trade's id or the best prices, for a cost of 2; a book's id or levels, for 5."""
        if channel == "book_deltas":
            return progress_request(self.book(symbol, 1), latest_update)
        if channel == "book_snapshots":
            return progress_request(self.book(symbol, 20), levels)

        def read(body: bytes, _received_at_ns: int) -> MarketProgress:
            (row,) = decoded(_decode_latest, body)
            if channel == "tickers":
                return MarketProgress(f"{row.bid} {row.bid_quantity} {row.ask} {row.ask_quantity}")
            numbered = channel in ("trades", "agg_trades")
            return MarketProgress(str(row.last_id), row.last_id if numbered else None)

        params = {"symbols": msgspec.json.encode([self._symbols.native(symbol)]).decode()}
        return Request("/api/v3/ticker/24hr", _TICKER_COSTS[0][1], read, params)


def _trades_reader(symbol: Symbol, source: Source) -> Callable[[bytes, int], list[Trade]]:
    def read(body: bytes, received_at_ns: int) -> list[Trade]:
        rows = decoded(_decode_trades, body)
        return [
            Trade(
                exchange=NAME,
                symbol=symbol,
                received_at_ns=received_at_ns,
                source=source,
                id=row.id,
                at_ns=row.at_ms * MS_NS,
                price_text=plain_number(row.price),
                quantity_text=plain_number(row.quantity),
                taker="sell" if row.maker_bought else "buy",
            )
            for row in rows
        ]

    return read


def _agg_trades_reader(symbol: Symbol, source: Source) -> Callable[[bytes, int], list[AggTrade]]:
    def read(body: bytes, received_at_ns: int) -> list[AggTrade]:
        rows = decoded(_decode_agg_trades, body)
        return [
            AggTrade(
                exchange=NAME,
                symbol=symbol,
                received_at_ns=received_at_ns,
                source=source,
                id=row.id,
                first_trade_id=row.first_id,
                last_trade_id=row.last_id,
                at_ns=row.at_ms * MS_NS,
                price_text=plain_number(row.price),
                quantity_text=plain_number(row.quantity),
                taker="sell" if row.maker_bought else "buy",
            )
            for row in rows
        ]

    return read


def _candles_reader(symbol: Symbol, interval: Interval) -> Callable[[bytes, int], list[Candle]]:
    def read(body: bytes, received_at_ns: int) -> list[Candle]:
        rows = decoded(_decode_candles, body)
        # A candle is closed if a later one follows, or if it ended long enough ago.
        over_ms = surely_over_ms(received_at_ns)
        last = len(rows) - 1
        return [
            Candle(
                exchange=NAME,
                symbol=symbol,
                received_at_ns=received_at_ns,
                source="rest",
                interval=interval.text,
                open_ms=row.open_ms,
                close_ms=row.close_ms,
                open_text=plain_number(row.open),
                high_text=plain_number(row.high),
                low_text=plain_number(row.low),
                close_text=plain_number(row.close),
                volume_text=plain_number(row.volume),
                quote_volume_text=plain_number(row.quote_volume),
                trades=row.trades,
                closed=number < last or row.close_ms < over_ms,
                taker_buy_volume_text=plain_number(row.taker_buy_volume),
                taker_buy_quote_volume_text=plain_number(row.taker_buy_quote_volume),
            )
            for number, row in enumerate(rows)
        ]

    return read


def _ticker(row: _Ticker, symbol: Symbol, received_at_ns: int) -> Ticker:
    return Ticker(
        exchange=NAME,
        symbol=symbol,
        received_at_ns=received_at_ns,
        source="rest",
        at_ns=row.at_ms * MS_NS,
        bid_text=plain_number(row.bid),
        bid_quantity_text=plain_number(row.bid_quantity),
        ask_text=plain_number(row.ask),
        ask_quantity_text=plain_number(row.ask_quantity),
        last_text=plain_number(row.last),
        open_text=plain_number(row.open),
        high_text=plain_number(row.high),
        low_text=plain_number(row.low),
        volume_text=plain_number(row.volume),
        quote_volume_text=plain_number(row.quote_volume),
    )


def _check_levels(raw: Raw) -> None:
    if all_plain_levels([raw]):
        return
    try:
        read_levels(raw)
    except MalformedLevels as error:
        raise UnexpectedAnswer(f"A book cannot be read: {error}") from error


def _step(costs: Sequence[tuple[int, int]], size: int) -> int:
    """The cost of the first step that includes ``size``; beyond the last, that of all tickers."""
    return next((cost for upto, cost in costs if size <= upto), _ALL_TICKERS_COST)
