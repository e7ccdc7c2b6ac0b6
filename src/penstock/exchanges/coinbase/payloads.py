"""What Coinbase's feed carries, and the events it becomes.

Every frame is one flat object that begins with its type. Prices and sizes are texts; times are
RFC 3339 with microseconds. Each structure quotes the frame it reads, with its fields in the wire's
order, which is what msgspec reads fastest. Levels of many frames are brought to the one spelling
together, and numbers that somebody has yet to look at are handed in.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from penstock.errors import MalformedLevels
from penstock.exchanges.answers import Text, Whole
from penstock.exchanges.coinbase.symbols import NAME
from penstock.exchanges.frames import NotANumber, number_text
from penstock.exchanges.times import epoch_ns
from penstock.market.events import AnyEvent, BookDelta, BookSnapshot, Side, Ticker, Trade
from penstock.market.levels import LevelText, plain_lines, read_levels, write_levels
from penstock.market.symbol import Symbol

Asked = Mapping[str, Symbol]
"""Symbols asked for, by the exchange's spelling."""

TAKER: Mapping[Side, Side] = {"buy": "sell", "sell": "buy"}
"""The taker's side by the maker's, which is what matches and trades tell."""


class _Match(Struct, tag_field="type", tag="match", gc=False):
    """matches; at the head of the stream the newest trade before it, as a ``last_match``

    {"type":"match","trade_id":280232,"maker_order_id":"2a0da34e-…","taker_order_id":"3c82abaa-…",
     "side":"sell","size":"985","price":"0.00001305","product_id":"SKL-BTC","sequence":177100030,
     "time":"2021-04-17T16:43:37.089723Z"}
    """

    trade_id: Whole
    side: Side
    size: Text
    price: Text
    product_id: str
    time: str


class _LastMatch(_Match, tag="last_match", gc=False):
    """The same fields."""


class _Ticker(Struct, tag_field="type", tag="ticker", gc=False):
    """ticker

    {"type":"ticker","sequence":333938798,"product_id":"BAND-GBP","price":"14.7775",
     "open_24h":"14.6647","volume_24h":"94381.28000000","low_24h":"14.3691","high_24h":"16.55",
     "volume_30d":"2295579.57000000","best_bid":"14.7550","best_ask":"14.8060","side":"buy",
     "time":"2021-04-17T16:43:30.244075Z","trade_id":881613,"last_size":"0.04"}

    Newer frames tell the sizes at the touch as well.
    """

    sequence: Whole
    product_id: str
    price: Text
    open_24h: Text
    volume_24h: Text
    low_24h: Text
    high_24h: Text
    best_bid: Text
    best_ask: Text
    time: str
    best_bid_size: Text | None = None
    best_ask_size: Text | None = None


class _Snapshot(Struct, tag_field="type", tag="snapshot", gc=False):
    """level2_batch, first: the whole book

    {"type":"snapshot","product_id":"BAND-GBP","asks":[["14.8024","12.77"],…],"bids":[…]}
    """

    product_id: str
    asks: Raw
    bids: Raw
    time: str | None = None


class _Change(Struct, array_like=True, gc=False):
    side: Side
    price: Text
    size: Text


class _Update(Struct, tag_field="type", tag="l2update", gc=False):
    """level2_batch, from then on: absolute sizes; zero, however it is spelled, removes

    {"type":"l2update","product_id":"SKL-BTC","changes":[["sell","0.00001306","660.5"]],
     "time":"2021-04-17T16:43:37.075687Z"}
    """

    product_id: str
    changes: Raw
    time: str


class _Heartbeat(Struct, tag_field="type", tag="heartbeat", gc=False):
    """Every second, for every product."""


Message = _Update | _Match | _LastMatch | _Ticker | _Snapshot | _Heartbeat
TYPES = ("match", "last_match", "ticker", "snapshot", "l2update")
"""Those that bring data."""

decode: Callable[[bytes | str], Message] = msgspec.json.Decoder(Message).decode
_decode_changes = msgspec.json.Decoder(list[_Change]).decode

_BID, _ASK = b'["buy",]', b'["sell",]'
_find_bids = re.compile(rb'\["buy",([^\]]*)\]').findall
_find_asks = re.compile(rb'\["sell",([^\]]*)\]').findall

Spelling = Callable[[Sequence[_Snapshot | _Update]], list[Raw]]
"""The bids and asks of each, in turn, in the one spelling. Raises what msgspec raises."""


class EventMaker:
    """Makes events of what was decoded.

    What it makes may hold texts that are no numbers: they are in ``texts``, for somebody to look
    at before anybody else sees the events.
    """

    def __init__(self, asked: Mapping[str, Asked], texts: list[str]) -> None:
        self._matches, self._tickers = asked["matches"], asked["ticker"]
        self._books, self._texts = asked["level2_batch"], texts

    def make(
        self, messages: Sequence[Message], received_at_ns: Sequence[int], spell: Spelling
    ) -> list[AnyEvent]:
        """The events of these messages, in order.

        Raises:
            KeyError: one is of a product that nobody asked for.
            ValidationError: one is not as documented.
        """
        # Asking for the type itself takes half the time of anything else.
        books = [each for each in messages if type(each) is _Update or type(each) is _Snapshot]
        levels = iter(spell(books))
        events: list[AnyEvent] = []
        for message, at_ns in zip(messages, received_at_ns, strict=True):
            if type(message) is _Update:
                events.append(self._delta(message, at_ns, levels))
            elif type(message) is _Match or type(message) is _LastMatch:
                events.append(self._trade(message, at_ns))
            elif type(message) is _Ticker:
                events.append(self._ticker(message, at_ns))
            elif type(message) is _Snapshot:
                events.append(self._snapshot(message, at_ns, levels))
        return events

    def _trade(self, data: _Match, received_at_ns: int) -> Trade:
        price, size = data.price, data.size
        self._texts += price, size
        return Trade(
            exchange=NAME,
            symbol=self._matches[data.product_id],
            received_at_ns=received_at_ns,
            id=data.trade_id,
            at_ns=epoch_ns(data.time),
            price_text=price,
            quantity_text=size,
            taker=TAKER[data.side],
        )

    def _ticker(self, data: _Ticker, received_at_ns: int) -> Ticker:
        bid_size, ask_size = data.best_bid_size, data.best_ask_size
        self._texts += data.best_bid, data.best_ask, data.price, data.open_24h
        self._texts += data.high_24h, data.low_24h, data.volume_24h
        self._texts += [size for size in (bid_size, ask_size) if size is not None]
        return Ticker(
            exchange=NAME,
            symbol=self._tickers[data.product_id],
            received_at_ns=received_at_ns,
            at_ns=epoch_ns(data.time),
            update_id=data.sequence,
            bid_text=data.best_bid,
            bid_quantity_text=bid_size,
            ask_text=data.best_ask,
            ask_quantity_text=ask_size,
            last_text=data.price,
            open_text=data.open_24h,
            high_text=data.high_24h,
            low_text=data.low_24h,
            volume_text=data.volume_24h,
        )

    def _snapshot(
        self, data: _Snapshot, received_at_ns: int, levels: Iterator[Raw]
    ) -> BookSnapshot:
        return BookSnapshot(
            exchange=NAME,
            symbol=self._books[data.product_id],
            received_at_ns=received_at_ns,
            at_ns=None if data.time is None else epoch_ns(data.time),
            bids_raw=next(levels),
            asks_raw=next(levels),
        )

    def _delta(self, data: _Update, received_at_ns: int, levels: Iterator[Raw]) -> BookDelta:
        return BookDelta(
            exchange=NAME,
            symbol=self._books[data.product_id],
            received_at_ns=received_at_ns,
            at_ns=epoch_ns(data.time),
            bids_raw=next(levels),
            asks_raw=next(levels),
        )


def spell_at_once(books: Sequence[_Snapshot | _Update]) -> list[Raw]:
    """Levels in the one spelling, written as the exchange usually does.

    Raises:
        NotANumber: some are written otherwise, or are not levels; only a closer look tells.
    """
    lines: list[bytes] = []
    for book in books:
        lines += _parted(book.changes) if isinstance(book, _Update) else (book.bids, book.asks)
    if lines and not plain_lines(b"\n".join(lines)):
        raise NotANumber("not levels as they are usually written")
    # Copies: what msgspec hands out would keep the whole frame, and both sides of it, alive.
    return list(map(Raw, lines))


def _parted(changes: Raw) -> tuple[bytes, bytes]:
    """``[["buy","1.5","2.0"],["sell","1.6","0.0"]]`` as ``[["1.5","2.0"]]``, ``[["1.6","0.0"]]``"""
    bids, asks = _find_bids(changes), _find_asks(changes)
    # If they are as long as all of it, less a comma between two and the brackets around them, then
    # nothing else is there.
    found = len(b"".join(bids)) + len(b"".join(asks))
    around = len(_BID) * len(bids) + len(_ASK) * len(asks) + max(0, len(bids) + len(asks) - 1) + 2
    if found + around != len(bytes(changes)):
        raise NotANumber("not changes as they are usually written")
    return _joined(bids), _joined(asks)


def _joined(levels: Sequence[bytes]) -> bytes:
    return b"[[" + b"],[".join(levels) + b"]]" if levels else b"[]"


def spell_with_care(books: Sequence[_Snapshot | _Update]) -> list[Raw]:
    """The same, however they are written.

    Raises:
        NotANumber: something else stands where a number belongs.
        ValidationError: they are not levels.
    """
    levels: list[Raw] = []
    for book in books:
        if isinstance(book, _Snapshot):
            levels += _checked(book.bids), _checked(book.asks)
        else:
            sides: dict[Side, list[LevelText]] = {"buy": [], "sell": []}
            for change in _decode_changes(book.changes):
                level = number_text(change.price), number_text(change.size)
                sides[change.side].append(level)
            levels += write_levels(sides["buy"]), write_levels(sides["sell"])
    return levels


def _checked(raw: Raw) -> Raw:
    try:
        read_levels(raw)
    except MalformedLevels as error:
        raise NotANumber(str(error)) from error
    return raw.copy()
