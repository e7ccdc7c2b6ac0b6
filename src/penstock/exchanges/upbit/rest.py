"""Upbit's REST requests as data, and readers of their responses.

Responses are newest first and are reversed here; numbers are bare. Events have ``source="rest"``,
or ``"backfill"`` where a caller fills a gap. Each structure quotes the response it reads. Trades
are available for a week, by day: a request has the number of days before today, and the id before
which the page ends.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct, field

from penstock.errors import UnexpectedAnswer, UnknownInterval
from penstock.exchanges.answers import UNREADABLE, Whole, decoded, surely_over_ms
from penstock.exchanges.base import ApiError, MarketProgress, Request, SymbolMap, TradePage
from penstock.exchanges.frames import Number, spelled_out
from penstock.exchanges.progress import last_trade_only, latest_trade, progress_request
from penstock.exchanges.progress import levels as shown_levels
from penstock.exchanges.times import MS_NS, Millis, epoch_ns
from penstock.exchanges.upbit.payloads import TAKER, levels
from penstock.exchanges.upbit.symbols import NAME, read_info
from penstock.market.events import BookSnapshot, Candle, Source, Ticker, Trade
from penstock.market.interval import DAY_MS, MINUTE_MS, SECOND_MS, Interval
from penstock.market.symbol import Symbol

PAGE = 500
"""The most trades in one response."""
CANDLES_PER_PAGE = 200
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

R = TypeVar("R")


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

    timestamp: Millis
    trade_price: Number
    trade_volume: Number
    ask_bid: Literal["ASK", "BID"]
    sequential_id: Whole


class _Candle(Struct):
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


class _Ticker(Struct):
    """An element of the responses to GET /v1/ticker and /v1/ticker/all

    {"market":"KRW-BTC",…,"opening_price":7109000,…,"trade_price":7050000,…,
     "acc_trade_price_24h":20842813224.847,…,"acc_trade_volume_24h":2933.58638998,…,
     "timestamp":1530510140578}
    """

    market: str
    trade_price: Number
    acc_trade_price_24h: Number
    acc_trade_volume_24h: Number
    timestamp: Millis


class _Error(Struct):
    name: int | str
    message: str = ""


class _Refused(Struct):
    """{"error":{"name":"too_many_requests","message":"…"}}"""

    error: _Error


_decode_books = msgspec.json.Decoder(list[_Book], float_hook=str).decode
_decode_trades = msgspec.json.Decoder(list[_Trade], float_hook=str).decode
_decode_candles = msgspec.json.Decoder(list[_Candle], float_hook=str).decode
_decode_tickers = msgspec.json.Decoder(list[_Ticker], float_hook=str).decode
_decode_refused = msgspec.json.Decoder(_Refused).decode


def read_api_error(body: bytes) -> ApiError | None:
    """The error in a response; None if the body is plain text, HTML or the like.

    The message of a ban contains its length.
    """
    try:
        error = _decode_refused(body).error
    except UNREADABLE:
        return None
    found = _SHUT_OUT.search(error.message)
    if found is None:
        return ApiError(error.name, error.message)
    unit_ms = MINUTE_MS if found[2][0] in "mM분" else SECOND_MS
    return ApiError(error.name, error.message, wait_ms=int(found[1]) * unit_ms)


INFO = Request("/v1/market/all", cost=1, read=read_info, category="market")


class UpbitRest:
    """Requests to Upbit. See ``Rest``."""

    def __init__(self, symbols: SymbolMap) -> None:
        self._symbols = symbols

    def book(self, symbol: Symbol, depth: int = DEEPEST_BOOK) -> Request[BookSnapshot]:
        """The best levels, at most 30 per side."""

        def read(body: bytes, received_at_ns: int) -> BookSnapshot:
            return decoded(lambda it: _read_book(it, symbol, received_at_ns), body)

        count = max(1, min(depth, DEEPEST_BOOK))
        params: dict[str, str | int] = {"markets": self._symbols.native(symbol), "count": count}
        return Request("/v1/orderbook", 1, read, params, "orderbook")

    def recent_trades(self, symbol: Symbol, limit: int = PAGE) -> Request[list[Trade]]:
        """The newest trades of today, at most a page."""
        read = _trades_reader(symbol, "rest")
        return self._ticks(symbol, read, count=max(1, min(limit, PAGE)))

    def trades(
        self, symbol: Symbol, cursor: int, source: Source = "backfill"
    ) -> Request[TradePage]:
        """A page of trades of one day, before the id in the cursor, which need not exist.

        A page that is not full is the last of its day, and the next is of the day before.
        """
        day = _ms_of(cursor - 1) // DAY_MS
        read_trades = _trades_reader(symbol, source)

        def dated(now_ms: int) -> Mapping[str, str | int]:
            days_ago = now_ms // DAY_MS - day
            return {"days_ago": days_ago} if days_ago > 0 else {}

        def read(body: bytes, received_at_ns: int) -> TradePage:
            told = read_trades(body, received_at_ns)
            trades = [trade for trade in told if trade.id < cursor]
            oldest, begins = min((each.id for each in trades), default=cursor), _first_id(day)
            if received_at_ns // 1_000_000 // DAY_MS - day < DAYS_OF_TRADES:
                return TradePage(trades, begins if len(told) < PAGE else oldest)
            # The exchange has no trades of the day before.
            return TradePage(trades, oldest if oldest > begins else cursor)

        return self._ticks(symbol, read, dated, count=PAGE, cursor=cursor)

    def candles(
        self, symbol: Symbol, interval: Interval, start_ms: int, end_ms: int
    ) -> Request[list[Candle]]:
        """A page of candles that begin in [start, end): of its first 200 those with trades.

        The last may still be running.
        """
        step_ms = interval.fixed_ms
        if interval.text not in PATHS or step_ms is None:
            raise UnknownInterval(interval.text, PATHS)
        first_ms = -(-start_ms // step_ms) * step_ms
        count = max(1, min(-(-(end_ms - first_ms) // step_ms), CANDLES_PER_PAGE))

        def read(body: bytes, received_at_ns: int) -> list[Candle]:
            candles = decoded(lambda it: _read_candles(it, symbol, interval, received_at_ns), body)
            # For intervals without trades, the exchange returns as many candles before the start.
            return [each for each in candles if start_ms <= each.open_ms < end_ms]

        beyond = datetime.fromtimestamp((first_ms + count * step_ms) // 1000, UTC)
        params: dict[str, str | int] = {
            "market": self._symbols.native(symbol),
            "to": f"{beyond:%Y-%m-%dT%H:%M:%SZ}",
            "count": count,
        }
        return Request(f"/v1/candles/{PATHS[interval.text]}", 1, read, params, "candle")

    def tickers(self, symbols: Sequence[Symbol] = ()) -> Request[list[Ticker]]:
        """The last 24 hours of these markets; of all markets if none is given."""
        natives = [self._symbols.native(symbol) for symbol in symbols]

        def read(body: bytes, received_at_ns: int) -> list[Ticker]:
            return decoded(lambda it: self._read_tickers(it, received_at_ns), body)

        if natives:
            return Request("/v1/ticker", 1, read, {"markets": ",".join(natives)}, "ticker")
        quotes = ",".join(sorted({symbol.quote for symbol in self._symbols}))
        return Request("/v1/ticker/all", 1, read, {"quote_currencies": quotes}, "ticker")

    def latest(self, symbol: Symbol, channel: str) -> Request[MarketProgress]:
        """The newest trade's id, or all levels of a book."""
        if channel == "book_deltas":
            return progress_request(self.book(symbol), shown_levels)
        tell = latest_trade if channel == "trades" else last_trade_only
        return progress_request(self.recent_trades(symbol, 1), tell)

    def _ticks(
        self,
        symbol: Symbol,
        read: Callable[[bytes, int], R],
        dated: Callable[[int], Mapping[str, str | int]] | None = None,
        **params: int,
    ) -> Request[R]:
        asked: dict[str, str | int] = {"market": self._symbols.native(symbol), **params}
        return Request("/v1/trades/ticks", 1, read, asked, "trade", dated)

    def _read_tickers(self, body: bytes, received_at_ns: int) -> list[Ticker]:
        # A market listed after the map was made is skipped; it must not hide the others.
        listed = [(row, self._symbols.get(row.market)) for row in _decode_tickers(body)]
        return [
            Ticker(
                exchange=NAME,
                symbol=symbol,
                received_at_ns=received_at_ns,
                source="rest",
                at_ns=row.timestamp * MS_NS,
                last_text=spelled_out(row.trade_price),
                volume_text=spelled_out(row.acc_trade_volume_24h),
                quote_volume_text=spelled_out(row.acc_trade_price_24h),
            )
            for row, symbol in listed
            if symbol
        ]


def _read_book(body: bytes, symbol: Symbol, received_at_ns: int) -> BookSnapshot:
    books = _decode_books(body)
    if len(books) != 1:
        raise UnexpectedAnswer(f"One book was asked for, and {len(books)} were answered")
    (data,) = books
    return BookSnapshot(
        exchange=NAME,
        symbol=symbol,
        received_at_ns=received_at_ns,
        source="rest",
        at_ns=data.timestamp * MS_NS,
        bids_raw=levels([(each.bid_price, each.bid_size) for each in data.orderbook_units]),
        asks_raw=levels([(each.ask_price, each.ask_size) for each in data.orderbook_units]),
    )


def _trades_reader(symbol: Symbol, source: Source) -> Callable[[bytes, int], list[Trade]]:
    def read(body: bytes, received_at_ns: int) -> list[Trade]:
        return decoded(lambda it: _read_trades(it, symbol, received_at_ns, source), body)

    return read


def _read_trades(body: bytes, symbol: Symbol, received_at_ns: int, source: Source) -> list[Trade]:
    return [
        Trade(
            exchange=NAME,
            symbol=symbol,
            received_at_ns=received_at_ns,
            source=source,
            id=row.sequential_id,
            at_ns=row.timestamp * MS_NS,
            price_text=spelled_out(row.trade_price),
            quantity_text=spelled_out(row.trade_volume),
            taker=TAKER[row.ask_bid],
        )
        for row in reversed(_decode_trades(body))
    ]


def _read_candles(
    body: bytes, symbol: Symbol, interval: Interval, received_at_ns: int
) -> list[Candle]:
    rows = [(row, epoch_ns(f"{row.open_at}Z") // MS_NS) for row in _decode_candles(body)]
    # A candle is closed if a later one follows, or if it ended long enough ago.
    over_ms = surely_over_ms(received_at_ns)
    last_ms = rows[0][1] if rows else 0
    return [
        Candle(
            exchange=NAME,
            symbol=symbol,
            received_at_ns=received_at_ns,
            source="rest",
            interval=interval.text,
            open_ms=open_ms,
            close_ms=(close_ms := interval.next_open(open_ms) - 1),
            open_text=spelled_out(row.open),
            high_text=spelled_out(row.high),
            low_text=spelled_out(row.low),
            close_text=spelled_out(row.close),
            volume_text=spelled_out(row.volume),
            quote_volume_text=spelled_out(row.quote_volume),
            closed=open_ms < last_ms or close_ms < over_ms,
        )
        for row, open_ms in reversed(rows)
    ]


def _first_id(day: int) -> int:
    """The lowest possible id of a trade on this day, counted from 1970."""
    return day * DAY_MS * _IDS_PER_MS


def _ms_of(trade_id: int) -> int:
    """The time with which a trade's id begins; the number of digits after it has changed before."""
    return int(str(max(0, trade_id))[:_MS_DIGITS])
