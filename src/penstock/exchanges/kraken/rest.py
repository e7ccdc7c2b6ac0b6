"""Kraken's REST requests as data, and readers of their responses.

Every response, also an error, has status 200 and the same envelope: ``{"error":[],"result":{…}}``,
or ``{"error":["EQuery:Unknown asset pair"]}``. Pairs are requested by id, and results are keyed by
id. Events have ``source="rest"``, or ``"backfill"`` where a caller fills a gap.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Literal, TypeVar

from msgspec import Meta, Struct, ValidationError, field

from penstock.exchanges.answers import Text, Whole, only
from penstock.exchanges.base import ApiError, MarketProgress, Meaning, Request, TradePage
from penstock.exchanges.kraken.checksum import CHECKSUM
from penstock.exchanges.kraken.limits import PAIR
from penstock.exchanges.kraken.payloads import MINUTES
from penstock.exchanges.kraken.symbols import NAME, Answer
from penstock.exchanges.progress import latest_trade, levels, progress_request
from penstock.exchanges.resource import Params, Resource, error_reader
from penstock.exchanges.rest_rows import (
    BookRows,
    CandleRows,
    LevelBook,
    TickerRows,
    TradeRows,
    sides_of,
)
from penstock.exchanges.rows import CandleRow, Origin, ticker_with
from penstock.exchanges.symbol_map import SymbolMap
from penstock.exchanges.times import seconds_ns
from penstock.market.events import BookSnapshot, Candle, Source, Ticker, Trade
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol

PAGE = 1000
"""The most trades in one response."""
DEEPEST_BOOK = 500
LATEST_CANDLES = 720
"""Older ones are not available, whatever ``since`` is; the running one comes in addition."""
_MEANINGS: Mapping[str, Meaning] = {
    "EGeneral:Too many requests": "too_fast",
    "EGeneral:Temporary lockout": "too_fast",
    "EAPI:Rate limit exceeded": "too_fast",
    "EGeneral:Internal error": "failed",
}

_Last = Whole | Annotated[str, Meta(pattern="^[0-9]{1,19}$")]
"""The value of ``last`` beside the rows of a pair: the time of the last one in them."""

R = TypeVar("R")
T = TypeVar("T")
_Rows = Answer[dict[str, list[R] | _Last]]


class _Errors(Struct):
    """{"error":["EQuery:Unknown asset pair"]}, or "W…" for a warning beside a result."""

    error: list[str]

    def api_error(self) -> ApiError | None:
        error = next((text for text in self.error if text.startswith("E")), None)
        if error is None:
            return None
        code, _, message = error.partition(":")
        meaning = _MEANINGS.get(error, "failed" if code == "EService" else "refused")
        return ApiError(code, message or code, meaning=meaning)


class _Time(Struct):
    """/0/public/Time → {"unixtime":1762820224,"rfc1123":"Tue, 11 Nov 25 00:17:04 +0000"}"""

    at_s: Annotated[int, Meta(ge=0, le=1 << 40)] = field(name="unixtime")


class _Depth(LevelBook):
    """/0/public/Depth → {"XBTUSDT":{"asks":[["105944.30000","0.136",1762820248],…],"bids":[…]}}"""


class _Trade(Struct, array_like=True):
    """A row of /0/public/Trades: price, volume, time, taker's side, order type, misc, id

    ["105433.60000","0.00027625",1762795433.9717445,"b","l","",10218208]
    """

    price: Text
    quantity: Text
    at_s: Decimal
    side: Literal["b", "s"]
    order_type: str
    misc: str
    id: Whole


class _Candle(CandleRow, Struct, array_like=True):
    """A row of /0/public/OHLC: open time (s), open, high, low, close, vwap, volume, trades

    [1762777020,"105433.6","105433.6","105433.6","105433.6","0.0","0.00000000",0]
    """

    open_s: Annotated[int, Meta(ge=0, le=1 << 40)]
    open: Text
    high: Text
    low: Text
    close: Text
    vwap: Text
    volume: Text
    trades: Whole


class _Ticker(Struct):
    """A value of /0/public/Ticker, by pair id

    {"a":["105944.30000","1","1.000"],"b":["105944.20000","1","1.000"],"c":["105944.30000","0.1"],
     "v":["12.1","99.8"],"p":["105900.1","105800.2"],"t":[35,3276],"l":["104000.0","103000.0"],
     "h":["107000.0","108000.0"],"o":"106021.60000"}

    In ``v``, ``p``, ``t``, ``l`` and ``h`` the first value is since midnight, the second of the
    last 24 hours. ``o`` is of midnight only, so it is left out of a ticker whose other values cover
    24 hours.
    """

    ask: tuple[Text, Text, Text] = field(name="a")
    bid: tuple[Text, Text, Text] = field(name="b")
    last: tuple[Text, Text] = field(name="c")
    volume: tuple[Text, Text] = field(name="v")
    low: tuple[Text, Text] = field(name="l")
    high: tuple[Text, Text] = field(name="h")
    trades: tuple[Whole, Whole] = field(name="t", default=(0, 0))


_BOOK = Resource("/0/public/Depth", Answer[dict[str, _Depth]])
_TRADES = Resource("/0/public/Trades", _Rows[_Trade])
_CANDLES = Resource("/0/public/OHLC", _Rows[_Candle])
_TICKERS = Resource("/0/public/Ticker", Answer[dict[str, _Ticker]])
PAGED = (_TRADES.paged("trades", PAGE), _CANDLES.paged("candles", LATEST_CANDLES))
read_api_error = error_reader(_Errors, _Errors.api_error)

_books = BookRows[Answer[dict[str, _Depth]]](
    NAME, sides=lambda answer: sides_of(only(answer.result.values()))
)
_trades = TradeRows[_Trade](
    NAME,
    at_ns=lambda row: seconds_ns(row.at_s),
    taker=lambda row: "buy" if row.side == "b" else "sell",
)
_candles = CandleRows[_Candle](NAME, MINUTES, lambda row: row.open_s * 1000)
_tickers = TickerRows[tuple[str, _Ticker]](
    NAME, native=lambda named: named[0], make=lambda named, origin: _ticker(named[1], origin)
)


TIME = Resource("/0/public/Time", Answer[_Time]).request(lambda it, _: it.result.at_s * 1000)


class KrakenRest:
    """Requests to Kraken spot. See ``Rest``."""

    def __init__(self, symbols: SymbolMap) -> None:
        self._symbols = symbols

    def book(self, symbol: Symbol, depth: int = DEEPEST_BOOK) -> Request[BookSnapshot]:
        """The best levels, at most 500 per side; they cannot be joined with the stream's books."""
        count = max(1, min(depth, DEEPEST_BOOK))
        params: Params = {"pair": self._symbols.native(symbol), "count": count}
        return _BOOK.request(_books.reader(symbol), params)

    def recent_trades(self, symbol: Symbol, limit: int = PAGE) -> Request[list[Trade]]:
        """The newest trades, at most a page."""
        read = _trades.reader(symbol)
        # Without ``count``: whether that takes the newest or the first of a page is not documented.
        return self._of_pair(
            _TRADES, symbol, lambda answer, at_ns: read(_page(answer)[0][-limit:], at_ns)
        )

    def trades(
        self, symbol: Symbol, cursor: int, source: Source = "backfill"
    ) -> Request[TradePage]:
        """A page of trades after a time in nanoseconds; 0 begins with the market's first trade."""
        read = _trades.reader(symbol, source)

        def make(answer: _Rows[_Trade], at_ns: int) -> TradePage:
            page, last_ns = _page(answer)
            return TradePage(read(page, at_ns), last_ns if page else cursor)

        return self._of_pair(_TRADES, symbol, make, since=cursor, count=PAGE)

    def candles(
        self, symbol: Symbol, interval: Interval, start_ms: int, end_ms: int
    ) -> Request[list[Candle]]:
        """Candles of the newest 720 that begin in [start, end); the last may still be running."""
        read = _candles.reader(symbol, interval, start_ms, end_ms)

        def make(answer: _Rows[_Candle], at_ns: int) -> list[Candle]:
            page, last_s = _page(answer)
            return read(page, at_ns, last_s * 1000)

        # A second earlier: whether `since` itself is included is not documented.
        since, minutes = max(0, start_ms // 1000 - 1), MINUTES[interval.text]
        return self._of_pair(_CANDLES, symbol, make, interval=minutes, since=since)

    def tickers(self, symbols: Sequence[Symbol] = ()) -> Request[list[Ticker]]:
        """The last 24 hours of these markets; of all markets if none is given."""
        natives = [self._symbols.native(symbol) for symbol in symbols]
        read = _tickers.reader(self._symbols)
        return _TICKERS.request(
            lambda answer, at_ns: read(answer.result.items(), at_ns),
            {"pair": ",".join(natives)} if natives else {},
        )

    def latest(self, symbol: Symbol, channel: str) -> Request[MarketProgress]:
        """The newest trade's id, a book's levels, the best prices, or the last trade and count."""
        if channel == "trades":
            return progress_request(self.recent_trades(symbol, 1), latest_trade)
        if channel == "book_deltas":
            return progress_request(self.book(symbol, CHECKSUM.levels), levels)

        def make(answer: Answer[dict[str, _Ticker]], _at_ns: int) -> MarketProgress:
            row = only(answer.result.values())
            if channel == "tickers":
                return MarketProgress(f"{row.bid[0]} {row.ask[0]}")
            # The count since midnight: that of 24 hours decreases without trades.
            return MarketProgress(f"{' '.join(row.last)} {row.trades[0]}")

        return _TICKERS.request(make, {"pair": self._symbols.native(symbol)})

    def _of_pair(
        self, resource: Resource[R], symbol: Symbol, make: Callable[[R, int], T], **params: int
    ) -> Request[T]:
        native = self._symbols.native(symbol)
        return resource.request(make, {"pair": native, **params}, category=PAIR + native)


def _page(answer: _Rows[R]) -> tuple[list[R], int]:
    """The rows of the only pair, and ``last``."""
    last = answer.result.pop("last", None)
    rows = only(answer.result.values())
    if last is None or isinstance(last, list) or not isinstance(rows, list):
        raise ValidationError("not the rows of a pair, and ``last``")
    return rows, int(last)


def _ticker(row: _Ticker, origin: Origin) -> Ticker:
    return ticker_with(
        origin,
        bid=row.bid[0], bid_quantity=row.bid[2], ask=row.ask[0], ask_quantity=row.ask[2],
        last=row.last[0], high=row.high[1], low=row.low[1], volume=row.volume[1],
    )  # fmt: skip
