"""Reads the payloads of Coinbase's feed, and converts them to events.

Every frame is one flat object that begins with its type. Prices and sizes are texts; times are
RFC 3339 with microseconds. Each structure quotes the frame it reads, with its fields in the order
in which they are sent, which msgspec reads fastest. Levels of many frames are converted to the
standard format together, and numbers are collected for later validation.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Raw, Struct, field

from penstock.exchanges.answers import Text, Whole
from penstock.exchanges.coinbase.symbols import NAME
from penstock.exchanges.deferred_numbers import DeferredNumbers
from penstock.exchanges.row_events import BookRow, DatedEvents
from penstock.exchanges.stream_names import Asked
from penstock.exchanges.times import epoch_ns
from penstock.market.events import Event, Side, Ticker

TAKER: Mapping[str, Side] = {"buy": "sell", "sell": "buy"}
"""The taker's side by the maker's, which is the side in matches and trades."""


class _Match(Struct, tag_field="type", tag="match", gc=False):
    """matches; the stream begins with the newest trade before it, as a ``last_match``

    {"type":"match","trade_id":280232,"maker_order_id":"2a0da34e-…","taker_order_id":"3c82abaa-…",
     "side":"sell","size":"985","price":"0.00001305","product_id":"SKL-BTC","sequence":177100030,
     "time":"2021-04-17T16:43:37.089723Z"}
    """

    id: Whole = field(name="trade_id")
    side: Side
    quantity: Text = field(name="size")
    price: Text
    product_id: str
    at: str = field(name="time")


class _LastMatch(_Match, tag="last_match", gc=False):
    """The same fields."""


class _Ticker(Struct, tag_field="type", tag="ticker", gc=False):
    """ticker

    {"type":"ticker","sequence":333938798,"product_id":"BAND-GBP","price":"14.7775",
     "open_24h":"14.6647","volume_24h":"94381.28000000","low_24h":"14.3691","high_24h":"16.55",
     "volume_30d":"2295579.57000000","best_bid":"14.7550","best_ask":"14.8060","side":"buy",
     "time":"2021-04-17T16:43:30.244075Z","trade_id":881613,"last_size":"0.04"}

    Newer frames also have the sizes of the best bid and ask.
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


class _Snapshot(BookRow, Struct, tag_field="type", tag="snapshot", gc=False):
    """level2_batch, first frame: the whole book

    {"type":"snapshot","product_id":"BAND-GBP","asks":[["14.8024","12.77"],…],"bids":[…]}
    """

    product_id: str
    asks: Raw
    bids: Raw
    at: str | None = field(name="time", default=None)


class _Update(BookRow, Struct, tag_field="type", tag="l2update", gc=False):
    """level2_batch, further frames: absolute sizes; zero in any format removes the level

    {"type":"l2update","product_id":"SKL-BTC","changes":[["sell","0.00001306","660.5"]],
     "time":"2021-04-17T16:43:37.075687Z"}
    """

    product_id: str
    changes: Raw
    at: str = field(name="time")


class _Heartbeat(Struct, tag_field="type", tag="heartbeat", gc=False):
    """Sent every second for every product."""


Message = _Update | _Match | _LastMatch | _Ticker | _Snapshot | _Heartbeat
TYPES = ("match", "last_match", "ticker", "snapshot", "l2update")
"""Types with data."""

decode: Callable[[bytes | str], Message] = msgspec.json.Decoder(Message).decode

Spelling = Callable[[Sequence[Raw | tuple[Raw, Raw]]], list[Raw]]
"""The bids and asks of changes and of whole books, see ``changes_at_once``."""


class EventMaker:
    """Makes events from decoded messages.

    Numbers in the events are added to ``deferred``, which the caller validates before it passes the
    events on.
    """

    def __init__(self, asked: Asked, deferred: DeferredNumbers) -> None:
        self._matches, self._tickers = asked["matches"], asked["ticker"]
        self._books, self._texts = asked["level2_batch"], deferred.texts
        self._dated = DatedEvents(NAME, TAKER, deferred)

    def make(
        self, messages: Sequence[Message], received_at_ns: Sequence[int], spell: Spelling
    ) -> list[Event]:
        """The events of these messages, in order.

        Raises:
            KeyError: a message is of a product that was not requested.
            ValidationError: a message is not as documented.
        """
        # Comparing types takes half the time of any alternative.
        books: list[Raw | tuple[Raw, Raw]] = []
        for each in messages:
            if type(each) is _Update:
                books.append(each.changes)
            elif type(each) is _Snapshot:
                books.append((each.bids, each.asks))
        levels = iter(spell(books))
        events: list[Event] = []
        for message, at_ns in zip(messages, received_at_ns, strict=True):
            if type(message) is _Update:
                symbol = self._books[message.product_id]
                events.append(self._dated.delta(message, symbol, at_ns, levels))
            elif type(message) is _Match or type(message) is _LastMatch:
                symbol = self._matches[message.product_id]
                events.append(self._dated.trade(message, symbol, at_ns))
            elif type(message) is _Ticker:
                events.append(self._ticker(message, at_ns))
            elif type(message) is _Snapshot:
                symbol = self._books[message.product_id]
                events.append(self._dated.snapshot(message, symbol, at_ns, levels))
        return events

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
