"""What Binance's streams carry, and the event each becomes.

Frames come in the combined envelope, ``{"stream":"btcusdt@trade","data":{…}}``. Each structure
quotes the payload it reads, with its fields in the wire's order, which is what msgspec reads
fastest. A reader is made for the symbols asked for, which may become more later.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct, field

from penstock.market.events import (
    AggTrade,
    AnyEvent,
    BookDelta,
    BookSnapshot,
    Candle,
    Ticker,
    Trade,
)
from penstock.market.symbol import Symbol

EXCHANGE = "binance"
Whole = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Text = Annotated[str, Meta(max_length=64)]
"""A number as text: no price has more digits than that."""
Asked = Mapping[str, Symbol]
"""Symbols asked for, by the exchange's spelling."""
Reader = Callable[[bytes, int], AnyEvent]
"""(frame, received_at_ns) → event. Raises what msgspec raises, and KeyError for other symbols."""

as_plain = re.compile(r"[0-9]+(?:\.[0-9]+)?").fullmatch
"""None for anything but digits and a point: no sign, no exponent, no NaN."""

D = TypeVar("D")
_LONE_POINT = "a lone point is no number"


class NotANumber(msgspec.ValidationError):
    """A lone point: the one text that has the shape of a number without being one."""


class _Envelope(Struct, Generic[D], gc=False):
    data: D


class _Trade(Struct, gc=False):
    """<s>@trade

    {"e":"trade","E":1672515782136,"s":"BNBBTC","t":12345,"p":"0.001","q":"100","T":1672515782136,
     "m":true,"M":true}
    """

    native: str = field(name="s")
    id: Whole = field(name="t")
    price: Text = field(name="p")
    quantity: Text = field(name="q")
    at_ms: Whole = field(name="T")
    maker_bought: bool = field(name="m")


class _AggTrade(Struct, gc=False):
    """<s>@aggTrade

    {"e":"aggTrade","E":1633998523963,"s":"NKNUSDT","a":15683430,"p":"0.35280000",
     "q":"58.00000000","f":19862790,"l":19862790,"T":1633998523963,"m":false,"M":true}
    """

    native: str = field(name="s")
    id: Whole = field(name="a")
    price: Text = field(name="p")
    quantity: Text = field(name="q")
    first_id: Whole = field(name="f")
    last_id: Whole = field(name="l")
    at_ms: Whole = field(name="T")
    maker_bought: bool = field(name="m")


class _Delta(Struct, gc=False):
    """<s>@depth@100ms

    {"e":"depthUpdate","E":1633998512068,"s":"NKNUSDT","U":499869750,"u":499869752,
     "b":[["0.35130000","6195.00000000"]],"a":[]}
    """

    at_ms: Whole = field(name="E")
    native: str = field(name="s")
    first_id: Whole = field(name="U")
    final_id: Whole = field(name="u")
    bids: Raw = field(name="b")
    asks: Raw = field(name="a")


class _BookTicker(Struct, gc=False):
    """<s>@bookTicker, which alone names no event and no time

    {"u":499869768,"s":"NKNUSDT","b":"0.35210000","B":"672.00000000","a":"0.35260000",
     "A":"3199.00000000"}
    """

    update_id: Whole = field(name="u")
    native: str = field(name="s")
    bid: Text = field(name="b")
    bid_quantity: Text = field(name="B")
    ask: Text = field(name="a")
    ask_quantity: Text = field(name="A")


class _DayTicker(Struct, gc=False):
    """<s>@ticker, every second

    {"e":"24hrTicker","E":1672515782136,"s":"BNBBTC","p":"0.0015","P":"250.00","w":"0.0018",
     "x":"0.0009","c":"0.0025","Q":"10","b":"0.0024","B":"10","a":"0.0026","A":"100","o":"0.0010",
     "h":"0.0025","l":"0.0010","v":"10000","q":"18","O":0,"C":86400000,"F":0,"L":18150,"n":18151}
    """

    at_ms: Whole = field(name="E")
    native: str = field(name="s")
    last: Text = field(name="c")
    bid: Text = field(name="b")
    bid_quantity: Text = field(name="B")
    ask: Text = field(name="a")
    ask_quantity: Text = field(name="A")
    open: Text = field(name="o")
    high: Text = field(name="h")
    low: Text = field(name="l")
    volume: Text = field(name="v")
    quote_volume: Text = field(name="q")


class _Kline(Struct, gc=False):
    open_ms: Whole = field(name="t")
    close_ms: Whole = field(name="T")
    interval: str = field(name="i")
    open: Text = field(name="o")
    close: Text = field(name="c")
    high: Text = field(name="h")
    low: Text = field(name="l")
    volume: Text = field(name="v")
    trades: Whole = field(name="n")
    closed: bool = field(name="x")
    quote_volume: Text = field(name="q")


class _KlineFrame(Struct, gc=False):
    """<s>@kline_<interval>

    {"e":"kline","E":1633998523963,"s":"NKNUSDT","k":{"t":1633998480000,"T":1633998539999,
     "s":"NKNUSDT","i":"1m","f":19862761,"L":19862790,"o":"0.35270000","c":"0.35280000",
     "h":"0.35280000","l":"0.35220000","v":"25877.00000000","n":30,"x":false,"q":"9116.04600000",
     "V":"58.00000000","Q":"20.46240000","B":"0"}}
    """

    native: str = field(name="s")
    kline: _Kline = field(name="k")


class _Depth(Struct, gc=False):
    """<s>@depth20@100ms, which names no symbol: only the envelope does

    {"lastUpdateId":160,"bids":[["0.0024","10"]],"asks":[["0.0026","100"]]}
    """

    update_id: Whole = field(name="lastUpdateId")
    bids: Raw
    asks: Raw


class _DepthEnvelope(Struct, gc=False):
    stream: str
    data: _Depth


_decode_trade = msgspec.json.Decoder(_Envelope[_Trade]).decode
_decode_agg_trade = msgspec.json.Decoder(_Envelope[_AggTrade]).decode
_decode_delta = msgspec.json.Decoder(_Envelope[_Delta]).decode
_decode_book_ticker = msgspec.json.Decoder(_Envelope[_BookTicker]).decode
_decode_day_ticker = msgspec.json.Decoder(_Envelope[_DayTicker]).decode
_decode_kline = msgspec.json.Decoder(_Envelope[_KlineFrame]).decode
_decode_depth = msgspec.json.Decoder(_DepthEnvelope).decode


def trade_reader(asked: Asked) -> Reader:
    """Reads <s>@trade."""

    def read(frame: bytes, received_at_ns: int) -> Trade:
        data = _decode_trade(frame).data
        price, quantity = data.price, data.quantity
        if price == "." or quantity == ".":
            raise NotANumber(_LONE_POINT)
        return Trade(
            exchange=EXCHANGE,
            symbol=asked[data.native],
            received_at_ns=received_at_ns,
            id=data.id,
            at_ms=data.at_ms,
            price_text=price,
            quantity_text=quantity,
            taker="sell" if data.maker_bought else "buy",
        )

    return read


def agg_trade_reader(asked: Asked) -> Reader:
    """Reads <s>@aggTrade."""

    def read(frame: bytes, received_at_ns: int) -> AggTrade:
        data = _decode_agg_trade(frame).data
        price, quantity, first_id, last_id = data.price, data.quantity, data.first_id, data.last_id
        if price == "." or quantity == ".":
            raise NotANumber(_LONE_POINT)
        if first_id > last_id:
            raise msgspec.ValidationError(f"trades {first_id} to {last_id} run backwards")
        return AggTrade(
            exchange=EXCHANGE,
            symbol=asked[data.native],
            received_at_ns=received_at_ns,
            id=data.id,
            first_trade_id=first_id,
            last_trade_id=last_id,
            at_ms=data.at_ms,
            price_text=price,
            quantity_text=quantity,
            taker="sell" if data.maker_bought else "buy",
        )

    return read


def delta_reader(asked: Asked) -> Reader:
    """Reads <s>@depth@100ms."""

    def read(frame: bytes, received_at_ns: int) -> BookDelta:
        data = _decode_delta(frame).data
        first_id, final_id = data.first_id, data.final_id
        if first_id > final_id:
            raise msgspec.ValidationError(f"updates {first_id} to {final_id} run backwards")
        return BookDelta(
            exchange=EXCHANGE,
            symbol=asked[data.native],
            received_at_ns=received_at_ns,
            first_update_id=first_id,
            final_update_id=final_id,
            at_ms=data.at_ms,
            bids_raw=data.bids,
            asks_raw=data.asks,
        )

    return read


def book_ticker_reader(asked: Asked) -> Reader:
    """Reads <s>@bookTicker."""

    def read(frame: bytes, received_at_ns: int) -> Ticker:
        data = _decode_book_ticker(frame).data
        bid, bid_quantity = data.bid, data.bid_quantity
        ask, ask_quantity = data.ask, data.ask_quantity
        if bid == "." or bid_quantity == "." or ask == "." or ask_quantity == ".":
            raise NotANumber(_LONE_POINT)
        return Ticker(
            exchange=EXCHANGE,
            symbol=asked[data.native],
            received_at_ns=received_at_ns,
            update_id=data.update_id,
            bid_text=bid,
            bid_quantity_text=bid_quantity,
            ask_text=ask,
            ask_quantity_text=ask_quantity,
        )

    return read


def day_ticker_reader(asked: Asked) -> Reader:
    """Reads <s>@ticker."""

    def read(frame: bytes, received_at_ns: int) -> Ticker:
        data = _decode_day_ticker(frame).data
        if "." in (data.last, data.bid, data.bid_quantity, data.ask, data.ask_quantity, data.open):
            raise NotANumber(_LONE_POINT)
        if "." in (data.high, data.low, data.volume, data.quote_volume):
            raise NotANumber(_LONE_POINT)
        return Ticker(
            exchange=EXCHANGE,
            symbol=asked[data.native],
            received_at_ns=received_at_ns,
            at_ms=data.at_ms,
            bid_text=data.bid,
            bid_quantity_text=data.bid_quantity,
            ask_text=data.ask,
            ask_quantity_text=data.ask_quantity,
            last_text=data.last,
            open_text=data.open,
            high_text=data.high,
            low_text=data.low,
            volume_text=data.volume,
            quote_volume_text=data.quote_volume,
        )

    return read


def candle_reader(asked: Asked) -> Reader:
    """Reads <s>@kline_<interval>."""

    def read(frame: bytes, received_at_ns: int) -> Candle:
        data = _decode_kline(frame).data
        k = data.kline
        if "." in (k.open, k.high, k.low, k.close, k.volume, k.quote_volume):
            raise NotANumber(_LONE_POINT)
        return Candle(
            exchange=EXCHANGE,
            symbol=asked[data.native],
            received_at_ns=received_at_ns,
            interval=k.interval,
            open_ms=k.open_ms,
            close_ms=k.close_ms,
            open_text=k.open,
            high_text=k.high,
            low_text=k.low,
            close_text=k.close,
            volume_text=k.volume,
            quote_volume_text=k.quote_volume,
            trades=k.trades,
            closed=k.closed,
        )

    return read


def depth_reader(asked: Asked) -> Reader:
    """Reads <s>@depth20@100ms; the symbol stands in the envelope alone."""

    def read(frame: bytes, received_at_ns: int) -> BookSnapshot:
        envelope = _decode_depth(frame)
        data = envelope.data
        return BookSnapshot(
            exchange=EXCHANGE,
            symbol=asked[envelope.stream.partition("@")[0].upper()],
            received_at_ns=received_at_ns,
            update_id=data.update_id,
            bids_raw=data.bids,
            asks_raw=data.asks,
        )

    return read
