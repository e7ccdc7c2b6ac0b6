"""Reads the payloads of Upbit's streams, and converts each frame to an event.

Frames are binary, and requested in the short format. Numbers are bare JSON numbers with the zeros
that the exchange sent, some with an exponent. They are kept as texts: a decoder with
``float_hook=str`` returns the digits. Each structure quotes the frame it reads.
"""

import re
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Literal

import msgspec
from msgspec import Raw, Struct, field

from penstock.exchanges.answers import Whole
from penstock.exchanges.frames import Number, spelled_out
from penstock.exchanges.times import MS_NS, Millis
from penstock.exchanges.upbit.symbols import NAME
from penstock.market.events import BookSnapshot, Event, Side, Ticker, Trade
from penstock.market.levels import LevelText, write_levels
from penstock.market.numbers import all_plain
from penstock.market.symbol import Symbol

Asked = Mapping[str, Symbol]
"""Requested symbols by the exchange's name."""
Reader = Callable[[bytes | str, int], Event]
"""(frame, received_at_ns) → event. Raises what msgspec raises, and KeyError for other symbols."""

TAKER: Mapping[str, Side] = {"BID": "buy", "ASK": "sell"}
"""The taker's side by the exchange's term."""


class _Trade(Struct, gc=False):
    """trade

    {"ty":"trade","cd":"KRW-LAMB","tms":1618678262712,"td":"2021-04-17","ttm":"16:51:02",
     "ttms":1618678262000,"tp":127.0,"tv":46.48838371,"ab":"BID","pcp":123.00000000,"c":"RISE",
     "cp":4.00000000,"sid":1618678262000003,"st":"REALTIME"}

    Ids contain the trade's time. They increase with it, not by one, and not always in the order in
    which trades arrive.
    """

    ty: Literal["trade"]
    cd: str
    ttms: Millis
    tp: Number
    tv: Number
    ab: Literal["ASK", "BID"]
    sid: Whole


class _Unit(Struct, gc=False):
    """The n-th best ask and the n-th best bid."""

    ask: Number = field(name="ap")
    bid: Number = field(name="bp")
    ask_size: Number = field(name="as")
    bid_size: Number = field(name="bs")


class _Book(Struct, gc=False):
    """orderbook; every frame is a whole book

    {"ty":"orderbook","cd":"KRW-LAMB","tms":1618678262640,"tas":25752275.55420627,
     "tbs":14407925.20098682,"obu":[{"ap":127.0,"bp":126.0,"as":280460.37885666,
     "bs":688682.44561413},…],"st":"REALTIME"}
    """

    ty: Literal["orderbook"]
    cd: str
    tms: Millis
    obu: Raw


class _Ticker(Struct, gc=False):
    """ticker

    {"ty":"ticker","cd":"KRW-BTC","op":484500.00,…,"tp":493100.00,…,"atv24h":37.4,"atp24h":18.5,…,
     "tms":1523531768829,"st":"SNAPSHOT"}

    The opening, highest and lowest price are since midnight. They are left out of a ticker whose
    volumes cover 24 hours.
    """

    ty: Literal["ticker"]
    cd: str
    tp: Number
    atv24h: Number
    atp24h: Number
    tms: Millis


_decode_trade = msgspec.json.Decoder(_Trade, float_hook=str).decode
_decode_book = msgspec.json.Decoder(_Book, float_hook=str).decode
_decode_units = msgspec.json.Decoder(list[_Unit], float_hook=str).decode
_decode_ticker = msgspec.json.Decoder(_Ticker, float_hook=str).decode


def trade_reader(asked: Asked) -> Reader:
    """Reads ``trade``."""

    def read(frame: bytes | str, received_at_ns: int) -> Event:
        data = _decode_trade(frame)
        return Trade(
            exchange=NAME,
            symbol=asked[data.cd],
            received_at_ns=received_at_ns,
            id=data.sid,
            at_ns=data.ttms * MS_NS,
            price_text=spelled_out(data.tp),
            quantity_text=spelled_out(data.tv),
            taker=TAKER[data.ab],
        )

    return read


def book_reader(asked: Asked) -> Reader:
    """Reads ``orderbook``."""

    def read(frame: bytes | str, received_at_ns: int) -> Event:
        data = _decode_book(frame)
        bids, asks = spell_units(data.obu)
        return BookSnapshot(
            exchange=NAME,
            symbol=asked[data.cd],
            received_at_ns=received_at_ns,
            at_ns=data.tms * MS_NS,
            bids_raw=bids,
            asks_raw=asks,
        )

    return read


def ticker_reader(asked: Asked) -> Reader:
    """Reads ``ticker``."""

    def read(frame: bytes | str, received_at_ns: int) -> Event:
        data = _decode_ticker(frame)
        return Ticker(
            exchange=NAME,
            symbol=asked[data.cd],
            received_at_ns=received_at_ns,
            at_ns=data.tms * MS_NS,
            last_text=spelled_out(data.tp),
            volume_text=spelled_out(data.atv24h),
            quote_volume_text=spelled_out(data.atp24h),
        )

    return read


# _SHAPES: units without digits, if all their numbers have a decimal point. _AROUND: the characters
# of units that do not belong to numbers.
_UNIT = b'{"ap":.,"bp":.,"as":.,"bs":.}'
_SHAPES = frozenset(b"[" + b",".join([_UNIT] * count) + b"]" for count in range(1, 31))
_DIGITS, _AROUND = b"0123456789", b'[]{}":apbs'
_find_zero = re.compile(rb":0*\.0*[,}]").search  # or a lone point, which is not a number


def spell_units(units: Raw) -> tuple[Raw, Raw]:
    """The bids and asks of a book, each in the standard format.

    In the exchange's usual format and without zeros, they are converted by a few calls in C. Any
    other format is decoded.

    Raises:
        NotANumber: a value is not a number.
        ValidationError: these are not units.
    """
    written = bytes(units)
    if written.translate(None, _DIGITS) in _SHAPES and not _find_zero(written):
        numbers = written.translate(None, _AROUND).split(b",")
        return _pairs(numbers[1::4], numbers[3::4]), _pairs(numbers[::4], numbers[2::4])
    rows = _decode_units(written)
    bids = levels([(each.bid, each.bid_size) for each in rows])
    return bids, levels([(each.ask, each.ask_size) for each in rows])


def _pairs(prices: list[bytes], sizes: list[bytes]) -> Raw:
    pairs = map(b'","'.join, zip(prices, sizes, strict=True))
    return Raw(b'[["' + b'"],["'.join(pairs) + b'"]]')


def levels(pairs: list[tuple[Number, Number]]) -> Raw:
    """Levels of bare numbers in the standard format, without the zeros that fill a shorter side.

    Raises:
        NotANumber: a value is not a number.
    """
    texts: list[LevelText] = [(str(price), str(size)) for price, size in pairs]
    if not all_plain([*chain.from_iterable(texts)]):
        texts = [(spelled_out(price), spelled_out(size)) for price, size in pairs]
    return write_levels(each for each in texts if each[1].strip("0."))
