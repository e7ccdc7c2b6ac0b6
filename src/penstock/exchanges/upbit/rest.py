"""Upbit's REST requests as data, and readers of their responses.

Responses are newest first and are reversed here; numbers are bare. Events have ``source="rest"``,
or ``"backfill"`` where a caller fills a gap. Each structure quotes the response it reads. Trades
are available for a week, by day: a request has the number of days before today, and the id before
which the page ends.
"""

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Raw, Struct, field

from penstock.exchanges.answers import Whole, only
from penstock.exchanges.base import ApiError, MarketProgress, Request, TradePage
from penstock.exchanges.frames import Number, spelled_out, spelled_out_all
from penstock.exchanges.progress import last_trade_only, latest_trade, progress_request
from penstock.exchanges.progress import levels as shown_levels
from penstock.exchanges.resource import Params, Resource, error_reader
from penstock.exchanges.rest_rows import BookRows, CandleRows, TickerRows, TradeRows, candle_page
from penstock.exchanges.rows import CandleRow, TickerRow, ticker_of
from penstock.exchanges.symbol_map import SymbolMap
from penstock.exchanges.times import MS_NS, Millis, epoch_ns, iso_text
from penstock.exchanges.upbit.payloads import TAKER, levels
from penstock.exchanges.upbit.symbols import NAME
from penstock.market.events import BookSnapshot, Candle, Source, Ticker, Trade
from penstock.market.interval import DAY_MS, MINUTE_MS, SECOND_MS, Interval
from penstock.market.symbol import Symbol

PAGE = 500
"""The most trades in one response."""
CANDLES_PER_PAGE = 200
DEFAULT_PAGE = 1
DEEPEST_BOOK = 30
DAYS_OF_TRADES = 7
"""Days before today for which trades are available."""
PATHS = {
    "1s": "seconds",
    **{f"{minutes}m": f"minutes/{minutes}" for minutes in (1, 3, 5, 10, 15, 30)},
    "1h": "minutes/60",
    "4h": "minutes/240",
    "1d": "days",
}
"""Paths of candles by interval. Weeks exist too, but their first day is not documented."""
CANDLE_DAYS = {"1s": 90}
"""Days for which candles are available, where limited: three months of one-second candles."""
OPENED_MS = 1_504_224_000_000
"""2017-09-01: the oldest candles are from later that month."""
_IDS_PER_MS = 10_000
_MS_DIGITS = 13
_SHUT_OUT = re.compile(r"([0-9]{1,7})\s*(seconds?|secs?|초|minutes?|mins?|분)", re.IGNORECASE)


class _Unit(Struct):
    ask_price: Number
    bid_price: Number
    ask_size: Number
    bid_size: Number


class _Book(Struct):
    """An element of the response to GET /v1/orderbook

    {"market":"KRW-BTC","timestamp":1751606867762,"total_ask_size":10.37,"total_bid_size":9.49,
     "orderbook_units":[{"ask_price":148520000,"bid_price":148490000,"ask_size":0.0134662,
     "bid_size":0.04296774},…],"level":0}
    """

    timestamp: Millis
    orderbook_units: list[_Unit]


class _Trade(Struct):
    """An element of the response to GET /v1/trades/ticks

    {"market":"KRW-BTC","trade_date_utc":"2025-06-27","trade_time_utc":"23:59:59",
     "timestamp":1751068799336,"trade_price":147058000,"trade_volume":0.00006043,
     "prev_closing_price":146852000,"change_price":206000,"ask_bid":"BID",
     "sequential_id":17510687993360000}
    """

    at_ms: Millis = field(name="timestamp")
    price: Number = field(name="trade_price")
    quantity: Number = field(name="trade_volume")
    side: Literal["ASK", "BID"] = field(name="ask_bid")
    id: Whole = field(name="sequential_id")


class _Candle(CandleRow, Struct):
    """An element of the response to GET /v1/candles/minutes/1 and similar

    {"market":"KRW-BTC","candle_date_time_utc":"2025-06-30T23:59:00",
     "candle_date_time_kst":"2025-07-01T08:59:00","opening_price":145794000,
     "high_price":145794000,"low_price":145759000,"trade_price":145759000,
     "timestamp":1751327999833,"candle_acc_trade_price":185042,"candle_acc_trade_volume":0.0013,
     "unit":1}

    ``timestamp`` is the time of the last trade.
    """

    open_at: str = field(name="candle_date_time_utc")
    open: Number = field(name="opening_price")
    high: Number = field(name="high_price")
    low: Number = field(name="low_price")
    close: Number = field(name="trade_price")
    quote_volume: Number = field(name="candle_acc_trade_price")
    volume: Number = field(name="candle_acc_trade_volume")


class _Ticker(TickerRow, Struct):
    """An element of the responses to GET /v1/ticker and /v1/ticker/all

    {"market":"KRW-BTC",…,"opening_price":7109000,…,"trade_price":7050000,…,
     "acc_trade_price_24h":20842813224.847,…,"acc_trade_volume_24h":2933.58638998,…,
     "timestamp":1530510140578}
    """

    native: str = field(name="market")
    last: Number = field(name="trade_price")
    quote_volume: Number = field(name="acc_trade_price_24h")
    volume: Number = field(name="acc_trade_volume_24h")
    at_ms: Millis = field(name="timestamp")


class _Error(Struct):
    name: int | str
    message: str = ""


class _Refused(Struct):
    """{"error":{"name":"too_many_requests","message":"…"}}; the message of a ban has its length"""

    error: _Error

    def api_error(self) -> ApiError:
        error = self.error
        found = _SHUT_OUT.search(error.message)
        if found is None:
            return ApiError(error.name, error.message)
        unit_ms = MINUTE_MS if found[2][0] in "mM분" else SECOND_MS
        return ApiError(error.name, error.message, wait_ms=int(found[1]) * unit_ms)


_BOOKS = Resource("/v1/orderbook", list[_Book], 1, "orderbook", bare_numbers=True)
_TRADES = Resource("/v1/trades/ticks", list[_Trade], 1, "trade", bare_numbers=True)
_CANDLES = Resource("/v1/candles/{}", list[_Candle], 1, "candle", bare_numbers=True)
_TICKERS = Resource("/v1/ticker", list[_Ticker], 1, "ticker", bare_numbers=True)
_ALL_TICKERS = Resource("/v1/ticker/all", list[_Ticker], 1, "ticker", bare_numbers=True)
PAGED = (
    _TRADES.paged("trades", PAGE, DEFAULT_PAGE, span_ms=DAY_MS, kept_days=DAYS_OF_TRADES),
    _CANDLES.paged("candles", CANDLES_PER_PAGE, DEFAULT_PAGE),
)
read_api_error = error_reader(_Refused, _Refused.api_error)

_books = BookRows[list[_Book]](
    NAME,
    sides=lambda books: _sides(only(books).orderbook_units),
    at_ns=lambda books: only(books).timestamp * MS_NS,
)
_trades = TradeRows[_Trade](
    NAME,
    at_ns=lambda row: row.at_ms * MS_NS,
    taker=lambda row: TAKER[row.side],
    spell=spelled_out,
    newest_first=True,
)
_candles = CandleRows[_Candle](
    NAME,
    PATHS,
    open_ms=lambda row: epoch_ns(f"{row.open_at}Z") // MS_NS,
    spell=spelled_out_all,
    newest_first=True,
)
_tickers = TickerRows[_Ticker](
    NAME,
    native=lambda row: row.native,
    make=lambda row, origin: ticker_of(row, origin, row.at_ms * MS_NS, spelled_out_all),
)


class UpbitRest:
    """Requests to Upbit. See ``Rest``."""

    def __init__(self, symbols: SymbolMap) -> None:
        self._symbols = symbols

    def book(self, symbol: Symbol, depth: int = DEEPEST_BOOK) -> Request[BookSnapshot]:
        """The best levels, at most 30 per side."""
        count = max(1, min(depth, DEEPEST_BOOK))
        params: Params = {"markets": self._symbols.native(symbol), "count": count}
        return _BOOKS.request(_books.reader(symbol), params)

    def recent_trades(self, symbol: Symbol, limit: int = PAGE) -> Request[list[Trade]]:
        """The newest trades of today, at most a page."""
        count = max(1, min(limit, PAGE))
        params: Params = {"market": self._symbols.native(symbol), "count": count}
        return _TRADES.request(_trades.reader(symbol), params)

    def trades(
        self, symbol: Symbol, cursor: int, source: Source = "backfill"
    ) -> Request[TradePage]:
        """A page of trades of one day, before the id in the cursor, which need not exist.

        A page that is not full is the last of its day, and the next is of the day before.
        """
        day = _ms_of(cursor - 1) // DAY_MS
        read = _trades.reader(symbol, source)

        def dated(now_ms: int) -> Params:
            days_ago = now_ms // DAY_MS - day
            return {"days_ago": days_ago} if days_ago > 0 else {}

        def make(page: list[_Trade], received_at_ns: int) -> TradePage:
            trades = [trade for trade in read(page, received_at_ns) if trade.id < cursor]
            oldest, begins = (
                min((each.id for each in trades), default=cursor),
                trade_id_at(day * DAY_MS),
            )
            if received_at_ns // 1_000_000 // DAY_MS - day < DAYS_OF_TRADES:
                return TradePage(trades, begins if len(page) < PAGE else oldest)
            # The exchange has no trades of the day before.
            return TradePage(trades, oldest if oldest > begins else cursor)

        params: Params = {"market": self._symbols.native(symbol), "count": PAGE, "cursor": cursor}
        return _TRADES.request(make, params, dated=dated)

    def candles(
        self, symbol: Symbol, interval: Interval, start_ms: int, end_ms: int
    ) -> Request[list[Candle]]:
        """A page of candles that begin in [start, end): of its first 200 those with trades.

        The last may still be running.
        """
        # For intervals without trades, the exchange returns as many candles before the start, which
        # the reader drops.
        make = _candles.reader(symbol, interval, start_ms, end_ms)
        first_ms, count = candle_page(interval, start_ms, end_ms, CANDLES_PER_PAGE)
        params: Params = {
            "market": self._symbols.native(symbol),
            "to": iso_text(first_ms + count * interval.next_open(0)),
            "count": count,
        }
        return _CANDLES.request(make, params, of=PATHS[interval.text])

    def tickers(self, symbols: Sequence[Symbol] = ()) -> Request[list[Ticker]]:
        """The last 24 hours of these markets; of all markets if none is given."""
        natives = [self._symbols.native(symbol) for symbol in symbols]
        make = _tickers.reader(self._symbols)
        if natives:
            return _TICKERS.request(make, {"markets": ",".join(natives)})
        quotes = ",".join(sorted({symbol.quote for symbol in self._symbols}))
        return _ALL_TICKERS.request(make, {"quote_currencies": quotes})

    def latest(self, symbol: Symbol, channel: str) -> Request[MarketProgress]:
        """The newest trade's id, or all levels of a book."""
        if channel == "book_deltas":
            return progress_request(self.book(symbol), shown_levels)
        progress_of = latest_trade if channel == "trades" else last_trade_only
        return progress_request(self.recent_trades(symbol, 1), progress_of)


def _sides(units: Sequence[_Unit]) -> tuple[Raw, Raw]:
    bids = levels([(each.bid_price, each.bid_size) for each in units])
    return bids, levels([(each.ask_price, each.ask_size) for each in units])


def trade_id_at(at_ms: int) -> int:
    """The lowest possible id of a trade at this time."""
    return at_ms * _IDS_PER_MS


def _ms_of(trade_id: int) -> int:
    """The time with which a trade's id begins; the number of digits after it has changed before."""
    return int(str(max(0, trade_id))[:_MS_DIGITS])
