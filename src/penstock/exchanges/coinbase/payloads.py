"""What Coinbase's feed carries, and the events each frame becomes.

Every frame is one flat object that begins with its type. Prices and sizes are texts; times are
ISO 8601 with microseconds. Each structure quotes the frame it reads, with its fields in the wire's
order, which is what msgspec reads fastest.
"""

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from penstock.errors import MalformedLevels
from penstock.exchanges.answers import Text, Whole
from penstock.exchanges.coinbase.symbols import NAME
from penstock.exchanges.frames import Instant, NotANumber, epoch_ms, number_text
from penstock.market.events import AnyEvent, BookDelta, BookSnapshot, Side, Ticker, Trade
from penstock.market.levels import LevelText, read_levels, write_levels
from penstock.market.symbol import Symbol

Asked = Mapping[str, Symbol]
"""Symbols asked for, by the exchange's spelling."""
Reader = Callable[[bytes, int], AnyEvent]
"""(frame, received_at_ns) → event. Raises what msgspec raises, and KeyError for other symbols."""

TAKER: Mapping[Side, Side] = {"buy": "sell", "sell": "buy"}
"""The taker's side by the maker's, which is what matches and trades tell."""


class _Match(Struct, gc=False):
    """matches; at the head of the stream the newest trade before it, as a ``last_match``

    {"type":"match","trade_id":280232,"maker_order_id":"2a0da34e-…","taker_order_id":"3c82abaa-…",
     "side":"sell","size":"985","price":"0.00001305","product_id":"SKL-BTC","sequence":177100030,
     "time":"2021-04-17T16:43:37.089723Z"}
    """

    type: Literal["match", "last_match"]
    trade_id: Whole
    side: Side
    size: Text
    price: Text
    product_id: str
    time: Instant


class _Ticker(Struct, gc=False):
    """ticker

    {"type":"ticker","sequence":333938798,"product_id":"BAND-GBP","price":"14.7775",
     "open_24h":"14.6647","volume_24h":"94381.28000000","low_24h":"14.3691","high_24h":"16.55",
     "volume_30d":"2295579.57000000","best_bid":"14.7550","best_ask":"14.8060","side":"buy",
     "time":"2021-04-17T16:43:30.244075Z","trade_id":881613,"last_size":"0.04"}

    Newer frames tell the sizes at the touch as well.
    """

    type: Literal["ticker"]
    sequence: Whole
    product_id: str
    price: Text
    open_24h: Text
    volume_24h: Text
    low_24h: Text
    high_24h: Text
    best_bid: Text
    best_ask: Text
    time: Instant
    best_bid_size: Text | None = None
    best_ask_size: Text | None = None


class _Snapshot(Struct, gc=False):
    """level2_batch, first: the whole book

    {"type":"snapshot","product_id":"BAND-GBP","asks":[["14.8024","12.77"],…],"bids":[…]}
    """

    type: Literal["snapshot"]
    product_id: str
    asks: Raw
    bids: Raw
    time: Instant | None = None


class _Change(Struct, array_like=True, gc=False):
    side: Side
    price: Text
    size: Text


class _Update(Struct, gc=False):
    """level2_batch, from then on: absolute sizes; zero, however it is spelled, removes

    {"type":"l2update","product_id":"SKL-BTC","changes":[["sell","0.00001306","660.5"]],
     "time":"2021-04-17T16:43:37.075687Z"}
    """

    type: Literal["l2update"]
    product_id: str
    changes: list[_Change]
    time: Instant


_decode_match = msgspec.json.Decoder(_Match).decode
_decode_ticker = msgspec.json.Decoder(_Ticker).decode
_decode_snapshot = msgspec.json.Decoder(_Snapshot).decode
_decode_update = msgspec.json.Decoder(_Update).decode
_NO_LEVELS = Raw(b"[]")


def match_reader(asked: Asked) -> Reader:
    """Reads ``match`` and ``last_match``."""

    def read(frame: bytes, received_at_ns: int) -> AnyEvent:
        data = _decode_match(frame)
        return Trade(
            exchange=NAME,
            symbol=asked[data.product_id],
            received_at_ns=received_at_ns,
            id=data.trade_id,
            at_ms=epoch_ms(data.time),
            price_text=number_text(data.price),
            quantity_text=number_text(data.size),
            taker=TAKER[data.side],
        )

    return read


def ticker_reader(asked: Asked) -> Reader:
    """Reads ``ticker``."""

    def read(frame: bytes, received_at_ns: int) -> AnyEvent:
        data = _decode_ticker(frame)
        bid_size, ask_size = data.best_bid_size, data.best_ask_size
        return Ticker(
            exchange=NAME,
            symbol=asked[data.product_id],
            received_at_ns=received_at_ns,
            at_ms=epoch_ms(data.time),
            update_id=data.sequence,
            bid_text=number_text(data.best_bid),
            bid_quantity_text=None if bid_size is None else number_text(bid_size),
            ask_text=number_text(data.best_ask),
            ask_quantity_text=None if ask_size is None else number_text(ask_size),
            last_text=number_text(data.price),
            open_text=number_text(data.open_24h),
            high_text=number_text(data.high_24h),
            low_text=number_text(data.low_24h),
            volume_text=number_text(data.volume_24h),
        )

    return read


def snapshot_reader(asked: Asked) -> Reader:
    """Reads ``snapshot``: its levels are already in the one spelling."""

    def read(frame: bytes, received_at_ns: int) -> AnyEvent:
        data = _decode_snapshot(frame)
        return BookSnapshot(
            exchange=NAME,
            symbol=asked[data.product_id],
            received_at_ns=received_at_ns,
            at_ms=epoch_ms(data.time) if data.time else None,
            bids_raw=_checked(data.bids),
            asks_raw=_checked(data.asks),
        )

    return read


def update_reader(asked: Asked) -> Reader:
    """Reads ``l2update``."""

    def read(frame: bytes, received_at_ns: int) -> AnyEvent:
        data = _decode_update(frame)
        sides: dict[str, list[LevelText]] = {"buy": [], "sell": []}
        for change in data.changes:
            level = number_text(change.price), number_text(change.size)
            sides[change.side].append(level)
        return BookDelta(
            exchange=NAME,
            symbol=asked[data.product_id],
            received_at_ns=received_at_ns,
            at_ms=epoch_ms(data.time),
            bids_raw=write_levels(sides["buy"]) if sides["buy"] else _NO_LEVELS,
            asks_raw=write_levels(sides["sell"]) if sides["sell"] else _NO_LEVELS,
        )

    return read


def _checked(raw: Raw) -> Raw:
    try:
        read_levels(raw)
    except MalformedLevels as error:
        raise NotANumber(str(error)) from error
    # A copy: what msgspec hands out would keep the whole frame, and both sides of it, alive.
    return raw.copy()
