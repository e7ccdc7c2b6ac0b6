"""The payloads of Binance's streams, which ``StampedEvents`` converts to events.

Frames come in the combined envelope, ``{"stream":"btcusdt@trade","data":{…}}``. Each structure
quotes the payload it reads, with its fields in the order in which they are sent, which msgspec
reads fastest. It is made for one symbol at a time (``TradePayload[Literal["BTCUSDT"]]``), so that
the decoder rejects any other. Numbers are collected for later validation.
"""

from typing import Generic, TypeVar

from msgspec import Raw, Struct, field

from penstock.exchanges.answers import IdOrNone, Text, Whole
from penstock.exchanges.row_events import StampedEvents
from penstock.exchanges.rows import CandleRow, TickerRow
from penstock.exchanges.times import Millis
from penstock.market.events import Candle
from penstock.market.symbol import Symbol

S = TypeVar("S")


class TradePayload(Struct, Generic[S], gc=False, kw_only=True):
    """<s>@trade

    {"e":"trade","E":1672515782136,"s":"BNBBTC","t":12345,"p":"0.001","q":"100","T":1672515782136,
     "m":true,"M":true}

    ``e``, ``E`` and ``M`` are not used, but skipping an undeclared field takes the decoder longer
    than reading it.
    """

    event: str = field(name="e", default="")
    event_ms: int = field(name="E", default=0)
    native: S = field(name="s")
    id: Whole = field(name="t")
    price: Text = field(name="p")
    quantity: Text = field(name="q")
    at_ms: Millis = field(name="T")
    maker_bought: bool = field(name="m")
    best_match: bool = field(name="M", default=True)


class AggTradePayload(Struct, Generic[S], gc=False, kw_only=True):
    """<s>@aggTrade

    {"e":"aggTrade","E":1633998523963,"s":"NKNUSDT","a":15683430,"p":"0.35280000",
     "q":"58.00000000","f":19862790,"l":19862790,"T":1633998523963,"m":false,"M":true}
    """

    event: str = field(name="e", default="")
    event_ms: int = field(name="E", default=0)
    native: S = field(name="s")
    id: Whole = field(name="a")
    price: Text = field(name="p")
    quantity: Text = field(name="q")
    first_id: Whole = field(name="f")
    last_id: Whole = field(name="l")
    at_ms: Millis = field(name="T")
    maker_bought: bool = field(name="m")
    best_match: bool = field(name="M", default=True)


class DeltaPayload(Struct, Generic[S], gc=False):
    """<s>@depth@100ms

    {"e":"depthUpdate","E":1633998512068,"s":"NKNUSDT","U":499869750,"u":499869752,
     "b":[["0.35130000","6195.00000000"]],"a":[]}
    """

    at_ms: Millis = field(name="E")
    native: S = field(name="s")
    first_id: Whole = field(name="U")
    final_id: Whole = field(name="u")
    bids: Raw = field(name="b")
    asks: Raw = field(name="a")


class BookTickerPayload(Struct, Generic[S], gc=False):
    """<s>@bookTicker, which has neither an event type nor a time

    {"u":499869768,"s":"NKNUSDT","b":"0.35210000","B":"672.00000000","a":"0.35260000",
     "A":"3199.00000000"}
    """

    update_id: Whole = field(name="u")
    native: S = field(name="s")
    bid: Text = field(name="b")
    bid_quantity: Text = field(name="B")
    ask: Text = field(name="a")
    ask_quantity: Text = field(name="A")


class DayTickerPayload(TickerRow, Struct, Generic[S], gc=False):
    """<s>@ticker, every second

    {"e":"24hrTicker","E":1672515782136,"s":"BNBBTC","p":"0.0015","P":"250.00","w":"0.0018",
     "x":"0.0009","c":"0.0025","Q":"10","b":"0.0024","B":"10","a":"0.0026","A":"100","o":"0.0010",
     "h":"0.0025","l":"0.0010","v":"10000","q":"18","O":0,"C":86400000,"F":0,"L":18150,"n":18151}
    """

    at_ms: Millis = field(name="E")
    native: S = field(name="s")
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


class _Kline(CandleRow, Struct, gc=False):
    open_ms: Whole = field(name="t")
    close_ms: Whole = field(name="T")
    interval: str = field(name="i")
    first_trade_id: IdOrNone = field(name="f")
    last_trade_id: IdOrNone = field(name="L")
    open: Text = field(name="o")
    close: Text = field(name="c")
    high: Text = field(name="h")
    low: Text = field(name="l")
    volume: Text = field(name="v")
    trades: Whole = field(name="n")
    closed: bool = field(name="x")
    quote_volume: Text = field(name="q")
    taker_buy_volume: Text = field(name="V")
    taker_buy_quote_volume: Text = field(name="Q")


class CandlePayload(Struct, Generic[S], gc=False):
    """<s>@kline_<interval>

    {"e":"kline","E":1633998523963,"s":"NKNUSDT","k":{"t":1633998480000,"T":1633998539999,
     "s":"NKNUSDT","i":"1m","f":19862761,"L":19862790,"o":"0.35270000","c":"0.35280000",
     "h":"0.35280000","l":"0.35220000","v":"25877.00000000","n":30,"x":false,"q":"9116.04600000",
     "V":"58.00000000","Q":"20.46240000","B":"0"}}
    """

    native: S = field(name="s")
    kline: _Kline = field(name="k")


class DepthPayload(Struct, gc=False):
    """<s>@depth20@100ms, which has no symbol: only the stream's name has it

    {"lastUpdateId":160,"bids":[["0.0024","10"]],"asks":[["0.0026","100"]]}
    """

    update_id: Whole = field(name="lastUpdateId")
    bids: Raw
    asks: Raw


def candle(
    maker: StampedEvents, data: CandlePayload[str], symbol: Symbol, received_at_ns: int
) -> Candle:
    """The candle in a payload."""
    return maker.candle(data.kline, symbol, received_at_ns)
