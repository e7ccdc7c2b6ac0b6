"""Kraken's REST requests as data, and readers of their responses.

Every response, also an error, has status 200 and the same envelope: ``{"error":[],"result":{…}}``,
or ``{"error":["EQuery:Unknown asset pair"]}``. Pairs are requested by id, and results are keyed by
id. Events have ``source="rest"``, or ``"backfill"`` where a caller fills a gap.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Generic, Literal, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct, field

from penstock.errors import UnexpectedAnswer, UnknownInterval
from penstock.exchanges.answers import UNREADABLE, Text, Whole, decoded, plain_number
from penstock.exchanges.base import (
    ApiError,
    Info,
    MarketProgress,
    Meaning,
    Request,
    SymbolMap,
    TradePage,
)
from penstock.exchanges.kraken.checksum import CHECKSUM
from penstock.exchanges.kraken.limits import PAIR
from penstock.exchanges.kraken.symbols import NAME, read_assets, read_info
from penstock.exchanges.progress import latest_trade, levels, progress_request
from penstock.exchanges.times import LATEST_NS, SECOND_NS
from penstock.market.events import BookSnapshot, Candle, Source, Ticker, Trade
from penstock.market.interval import Interval
from penstock.market.levels import write_levels
from penstock.market.symbol import Symbol

PAGE = 1000
"""The most trades in one response."""
DEEPEST_BOOK = 500
LATEST_CANDLES = 720
"""Older ones are not available, whatever ``since`` is; the running one comes in addition."""
MINUTES = {"1m": 1, "5m": 5, "15m": 15, "30m": 30, "1h": 60, "4h": 240, "1d": 1440}
"""Minutes by interval. 7 and 15 days exist too, but their first day is not documented."""
_MEANINGS: dict[str, Meaning] = {
    "EGeneral:Too many requests": "too_fast",
    "EGeneral:Temporary lockout": "too_fast",
    "EAPI:Rate limit exceeded": "too_fast",
    "EGeneral:Internal error": "failed",
}

R = TypeVar("R")


class _Answer(Struct, Generic[R]):
    result: R


class _Errors(Struct):
    """{"error":["EQuery:Unknown asset pair"]}, or "W…" for a warning beside a result."""

    error: list[str]


class _Time(Struct):
    """/0/public/Time → {"unixtime":1762820224,"rfc1123":"Tue, 11 Nov 25 00:17:04 +0000"}"""

    at_s: Annotated[int, Meta(ge=0, le=1 << 40)] = field(name="unixtime")


class _Level(Struct, array_like=True):
    """["105944.30000","0.136",1762820248]: price, quantity, time (s)"""

    price: Text
    quantity: Text


class _Depth(Struct):
    """/0/public/Depth → {"XBTUSDT":{"asks":[["105944.30000","0.136",1762820248],…],"bids":[…]}}"""

    asks: list[_Level]
    bids: list[_Level]


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


class _Candle(Struct, array_like=True):
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


class _Latest(Struct):
    """The fields of that value that show the progress of a market; see ``_Ticker``."""

    ask: tuple[Text, Text, Text] = field(name="a")
    bid: tuple[Text, Text, Text] = field(name="b")
    last: tuple[Text, Text] = field(name="c")
    trades: tuple[Whole, Whole] = field(name="t")


_decode_errors = msgspec.json.Decoder(_Errors).decode
_decode_time = msgspec.json.Decoder(_Answer[_Time]).decode
_decode_depth = msgspec.json.Decoder(_Answer[dict[str, _Depth]]).decode
_decode_rows = msgspec.json.Decoder(_Answer[dict[str, Raw]]).decode
_decode_trades = msgspec.json.Decoder(list[_Trade]).decode
_decode_candles = msgspec.json.Decoder(list[_Candle]).decode
_decode_tickers = msgspec.json.Decoder(_Answer[dict[str, _Ticker]]).decode
_decode_latest = msgspec.json.Decoder(_Answer[dict[str, _Latest]]).decode
_decode_last = msgspec.json.Decoder(Whole | Annotated[str, Meta(pattern="^[0-9]{1,19}$")]).decode


def read_api_error(body: bytes) -> ApiError | None:
    """The error in a response; None if there is none, or if the body is HTML or the like."""
    if body.startswith(b'{"error":[]'):
        return None
    try:
        errors = [text for text in _decode_errors(body).error if text.startswith("E")]
    except UNREADABLE:
        return None
    if not errors:
        return None
    code, _, message = errors[0].partition(":")
    meaning = _MEANINGS.get(errors[0], "failed" if code == "EService" else "refused")
    return ApiError(code, message or code, meaning=meaning)


TIME: Request[int] = Request(
    "/0/public/Time",
    cost=1,
    read=lambda body, _at_ns: decoded(_decode_time, body).result.at_s * 1000,
)
ASSETS = Request("/0/public/Assets", cost=1, read=read_assets)


def info_with(names: Mapping[str, str]) -> Request[Info]:
    """The request for the market listing, read with asset names by id."""
    return Request(
        "/0/public/AssetPairs", cost=1, read=lambda body, at_ns: read_info(body, at_ns, names)
    )


INFO = info_with({})


class KrakenRest:
    """Requests to Kraken spot. See ``Rest``."""

    def __init__(self, symbols: SymbolMap) -> None:
        self._symbols = symbols

    def book(self, symbol: Symbol, depth: int = DEEPEST_BOOK) -> Request[BookSnapshot]:
        """The best levels, at most 500 per side; they cannot be joined with the stream's books."""

        def read(body: bytes, received_at_ns: int) -> BookSnapshot:
            data = _only(decoded(_decode_depth, body).result)
            return BookSnapshot(
                exchange=NAME,
                symbol=symbol,
                received_at_ns=received_at_ns,
                source="rest",
                update_id=0,
                bids_raw=_levels(data.bids),
                asks_raw=_levels(data.asks),
            )

        count = max(1, min(depth, DEEPEST_BOOK))
        return self._request_for("Depth", symbol, read, count=count)

    def recent_trades(self, symbol: Symbol, limit: int = PAGE) -> Request[list[Trade]]:
        """The newest trades, at most a page."""

        def read(body: bytes, received_at_ns: int) -> list[Trade]:
            trades, _ = _read_trades(body, symbol, received_at_ns, "rest")
            return trades[-limit:]

        # Without ``count``: whether that takes the newest or the first of a page is not documented.
        return self._request_for("Trades", symbol, read)

    def trades(
        self, symbol: Symbol, cursor: int, source: Source = "backfill"
    ) -> Request[TradePage]:
        """A page of trades after a time in nanoseconds; 0 begins with the market's first trade."""

        def read(body: bytes, received_at_ns: int) -> TradePage:
            trades, last_ns = _read_trades(body, symbol, received_at_ns, source)
            return TradePage(trades, last_ns if trades else cursor)

        return self._request_for("Trades", symbol, read, since=cursor, count=PAGE)

    def candles(
        self, symbol: Symbol, interval: Interval, start_ms: int, end_ms: int
    ) -> Request[list[Candle]]:
        """Candles of the newest 720 that begin in [start, end); the last may still be running."""
        if interval.text not in MINUTES:
            raise UnknownInterval(interval.text, MINUTES)

        def read(body: bytes, received_at_ns: int) -> list[Candle]:
            rows, last_s = _read_rows(_decode_candles, body)
            return [
                _candle(row, symbol, interval, received_at_ns, closed=row.open_s <= last_s)
                for row in rows
                if start_ms <= row.open_s * 1000 < end_ms
            ]

        # A second earlier: whether `since` itself is included is not documented.
        since = max(0, start_ms // 1000 - 1)
        return self._request_for("OHLC", symbol, read, interval=MINUTES[interval.text], since=since)

    def tickers(self, symbols: Sequence[Symbol] = ()) -> Request[list[Ticker]]:
        """The last 24 hours of these markets; of all markets if none is given."""
        natives = [self._symbols.native(symbol) for symbol in symbols]

        def read(body: bytes, received_at_ns: int) -> list[Ticker]:
            rows = decoded(_decode_tickers, body).result
            # A market listed after the map was made, or a dark pool, must not hide the others.
            listed = [(row, self._symbols.get(native)) for native, row in rows.items()]
            return [_ticker(row, symbol, received_at_ns) for row, symbol in listed if symbol]

        params: dict[str, str | int] = {"pair": ",".join(natives)} if natives else {}
        return Request("/0/public/Ticker", cost=1, read=read, params=params)

    def latest(self, symbol: Symbol, channel: str) -> Request[MarketProgress]:
        """The newest trade's id, a book's levels, the best prices, or the last trade and count."""
        if channel == "trades":
            return progress_request(self.recent_trades(symbol, 1), latest_trade)
        if channel == "book_deltas":
            return progress_request(self.book(symbol, CHECKSUM.levels), levels)

        def read(body: bytes, _received_at_ns: int) -> MarketProgress:
            row = _only(decoded(_decode_latest, body).result)
            if channel == "tickers":
                return MarketProgress(f"{row.bid[0]} {row.ask[0]}")
            # The count since midnight: that of 24 hours decreases without trades.
            return MarketProgress(f"{' '.join(row.last)} {row.trades[0]}")

        native = self._symbols.native(symbol)
        return Request("/0/public/Ticker", cost=1, read=read, params={"pair": native})

    def _request_for(
        self,
        endpoint: Literal["Depth", "Trades", "OHLC"],
        symbol: Symbol,
        read: Callable[[bytes, int], R],
        **params: str | int,
    ) -> Request[R]:
        native = self._symbols.native(symbol)
        category = "" if endpoint == "Depth" else PAIR + native
        return Request(f"/0/public/{endpoint}", 1, read, {"pair": native, **params}, category)


def _only(by_pair: dict[str, R]) -> R:
    """The value of the only pair; its key may differ from the requested name."""
    if len(by_pair) != 1:
        raise UnexpectedAnswer(f"One pair was asked for, and {len(by_pair)} were answered")
    return next(iter(by_pair.values()))


def _read_rows(decode: Callable[[bytes], list[R]], body: bytes) -> tuple[list[R], int]:
    """The rows of the only pair in a response, and the ``last`` beside them."""
    by_pair = decoded(_decode_rows, body).result
    last = by_pair.pop("last", Raw(b""))
    return decoded(decode, bytes(_only(by_pair))), int(decoded(_decode_last, bytes(last)))


def _read_trades(
    body: bytes, symbol: Symbol, received_at_ns: int, source: Source
) -> tuple[list[Trade], int]:
    rows, last_ns = _read_rows(_decode_trades, body)
    trades = [
        Trade(
            exchange=NAME,
            symbol=symbol,
            received_at_ns=received_at_ns,
            source=source,
            id=row.id,
            at_ns=_ns(row.at_s),
            price_text=plain_number(row.price),
            quantity_text=plain_number(row.quantity),
            taker="buy" if row.side == "b" else "sell",
        )
        for row in rows
    ]
    return trades, last_ns


def _ns(at_s: Decimal) -> int:
    if not (at_s.is_finite() and 0 <= at_s <= LATEST_NS // SECOND_NS):
        raise UnexpectedAnswer(f"A trade is said to have happened at {at_s}")
    return int(at_s * SECOND_NS)


def _candle(
    row: _Candle, symbol: Symbol, interval: Interval, received_at_ns: int, *, closed: bool
) -> Candle:
    return Candle(
        exchange=NAME,
        symbol=symbol,
        received_at_ns=received_at_ns,
        source="rest",
        interval=interval.text,
        open_ms=row.open_s * 1000,
        close_ms=interval.next_open(row.open_s * 1000) - 1,
        open_text=plain_number(row.open),
        high_text=plain_number(row.high),
        low_text=plain_number(row.low),
        close_text=plain_number(row.close),
        volume_text=plain_number(row.volume),
        trades=row.trades,
        closed=closed,
        vwap_text=plain_number(row.vwap),
    )


def _ticker(row: _Ticker, symbol: Symbol, received_at_ns: int) -> Ticker:
    return Ticker(
        exchange=NAME,
        symbol=symbol,
        received_at_ns=received_at_ns,
        source="rest",
        bid_text=plain_number(row.bid[0]),
        bid_quantity_text=plain_number(row.bid[2]),
        ask_text=plain_number(row.ask[0]),
        ask_quantity_text=plain_number(row.ask[2]),
        last_text=plain_number(row.last[0]),
        high_text=plain_number(row.high[1]),
        low_text=plain_number(row.low[1]),
        volume_text=plain_number(row.volume[1]),
    )


def _levels(rows: list[_Level]) -> Raw:
    return write_levels((plain_number(row.price), plain_number(row.quantity)) for row in rows)
