"""Market events, in one form for every exchange.

Numbers keep the wire's digits: a price is stored as the text the exchange sent and is converted to
``Decimal`` on access. That is exact, keeps trailing zeros (checksums need them) and costs nothing
without access. Ids are integers of any size. Times are nanoseconds: ``at_ns`` by the exchange's
clock, with every digit it sends, and ``received_at_ns`` by the local clock.

Which channel an event belongs to is decided by its class: see ``channels``.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Literal

from msgspec import Raw, Struct, field
from msgspec.structs import asdict

from penstock import compiled
from penstock.market.levels import Level, as_decimals
from penstock.market.symbol import Symbol

Source = Literal["live", "rest", "backfill"]
"""How a record was received: on a stream, by a request, or by a request that fills a gap."""
Side = Literal["buy", "sell"]
Cause = Literal[
    "disconnected",
    "asked_anew",
    "book",
    "removed",
    "stopped",
    "not_running",
    "not_collected",
    "damaged",
]
"""Why data may be missing: the connection was lost; the stream was subscribed again; the book was
wrong; the stream was removed; the collector stopped; no collector ran; the stream was not
collected; its records were lost with damaged files of the log."""

# The same, and faster, where it is compiled.
_exact: Callable[[str], Decimal] = compiled.number or Decimal
_MS_NS = 1_000_000
_MOST_ZEROS = 40


class Event(Struct, frozen=True, kw_only=True, gc=False, tag_field="kind", omit_defaults=True):
    """The fields of every event."""

    exchange: str
    symbol: Symbol
    received_at_ns: int
    source: Source = "live"

    @property
    def market_ns(self) -> int:
        """When it happened by the exchange's clock, or the candle opened.

        The receive time if the exchange gave no time.
        """
        at_ns: int | None = getattr(self, "at_ns", None)
        if at_ns is not None:
            return at_ns
        open_ms: int | None = getattr(self, "open_ms", None)
        return self.received_at_ns if open_ms is None else open_ms * _MS_NS

    @property
    def market_ms(self) -> int:
        return self.market_ns // _MS_NS

    @property
    def summary(self) -> str:
        """Its contents in one line, for people."""
        own = (
            f"{name.removesuffix('_text')} {value}"
            for name, value in asdict(self).items()
            if name not in Event.__struct_fields__ and value is not None
        )
        return f"{self.__struct_config__.tag}: {', '.join(own)}"


class Trade(Event, frozen=True, kw_only=True, gc=False, tag="trade"):
    """One execution."""

    id: int
    """The exchange's own id."""
    at_ns: int
    price_text: str = field(name="price")
    quantity_text: str = field(name="quantity")
    taker: Side
    """Which side crossed the spread."""

    @property
    def at_ms(self) -> int:
        return self.at_ns // _MS_NS

    @property
    def price(self) -> Decimal:
        return _exact(self.price_text)

    @property
    def quantity(self) -> Decimal:
        return _exact(self.quantity_text)

    @property
    def summary(self) -> str:
        return f"trade {self.id}: {self.taker} {self.quantity_text} at {self.price_text}"


class AggTrade(Event, frozen=True, kw_only=True, gc=False, tag="agg_trade"):
    """Several executions of one taker order at one price, reported as one."""

    id: int
    """The exchange's id of the aggregate, counted separately from trade ids."""
    first_trade_id: int
    last_trade_id: int
    at_ns: int
    price_text: str = field(name="price")
    quantity_text: str = field(name="quantity")
    taker: Side

    @property
    def at_ms(self) -> int:
        return self.at_ns // _MS_NS

    @property
    def price(self) -> Decimal:
        return _exact(self.price_text)

    @property
    def quantity(self) -> Decimal:
        return _exact(self.quantity_text)

    @property
    def summary(self) -> str:
        return f"aggregate trade {self.id}: {self.taker} {self.quantity_text} at {self.price_text}"


class BookDelta(Event, frozen=True, kw_only=True, gc=False, tag="book_delta"):
    """Levels that changed: absolute quantities, zero removes."""

    first_update_id: int | None = None
    """None where the exchange does not number its updates."""
    final_update_id: int | None = None
    at_ns: int
    bids_raw: Raw = field(name="bids")
    """Levels as JSON pairs of texts, undecoded: continuity needs only the ids."""
    asks_raw: Raw = field(name="asks")
    checksum: int | None = None
    """The exchange's checksum of the book after this change."""

    @property
    def at_ms(self) -> int:
        return self.at_ns // _MS_NS

    @property
    def bids(self) -> list[Level]:
        return as_decimals(self.bids_raw)

    @property
    def asks(self) -> list[Level]:
        return as_decimals(self.asks_raw)

    @property
    def summary(self) -> str:
        return f"book: {len(self.bids)} bids and {len(self.asks)} asks changed"


class BookSnapshot(Event, frozen=True, kw_only=True, gc=False, tag="book_snapshot"):
    """A whole book, or its best levels, as of one update id."""

    update_id: int = 0
    """0 where the exchange does not number its updates; then its time identifies it."""
    at_ns: int | None = None
    """None where the exchange gives no time with it."""
    bids_raw: Raw = field(name="bids")
    asks_raw: Raw = field(name="asks")
    checksum: int | None = None

    @property
    def at_ms(self) -> int | None:
        return None if self.at_ns is None else self.at_ns // _MS_NS

    @property
    def bids(self) -> list[Level]:
        return as_decimals(self.bids_raw)

    @property
    def asks(self) -> list[Level]:
        return as_decimals(self.asks_raw)

    @property
    def summary(self) -> str:
        bids, asks = self.bids, self.asks
        best = f"bid {_best(bids)}, ask {_best(asks)}"
        return f"book of {len(bids)} bids and {len(asks)} asks: {best}"


class Ticker(Event, frozen=True, kw_only=True, gc=False, tag="ticker"):
    """The latest state of a market; values that the exchange does not send are None."""

    at_ns: int | None = None
    update_id: int | None = None
    bid_text: str | None = field(name="bid", default=None)
    bid_quantity_text: str | None = field(name="bid_quantity", default=None)
    ask_text: str | None = field(name="ask", default=None)
    ask_quantity_text: str | None = field(name="ask_quantity", default=None)
    last_text: str | None = field(name="last", default=None)
    open_text: str | None = field(name="open", default=None)
    high_text: str | None = field(name="high", default=None)
    low_text: str | None = field(name="low", default=None)
    volume_text: str | None = field(name="volume", default=None)
    quote_volume_text: str | None = field(name="quote_volume", default=None)

    @property
    def at_ms(self) -> int | None:
        return None if self.at_ns is None else self.at_ns // _MS_NS

    @property
    def bid(self) -> Decimal | None:
        return _decimal(self.bid_text)

    @property
    def ask(self) -> Decimal | None:
        return _decimal(self.ask_text)

    @property
    def last(self) -> Decimal | None:
        return _decimal(self.last_text)

    @property
    def summary(self) -> str:
        shown = (("bid", self.bid_text), ("ask", self.ask_text), ("last", self.last_text))
        return "ticker: " + ", ".join(f"{name} {text}" for name, text in shown if text)


class Ticker24h(Ticker, frozen=True, kw_only=True, gc=False, tag="ticker_24h"):
    """The statistics of a market over the last 24 hours, where they are a stream of their own."""


class Candle(Event, frozen=True, kw_only=True, gc=False, tag="candle"):
    """Prices, volume and trades of one interval."""

    interval: str
    open_ms: int
    close_ms: int
    """The last millisecond that belongs to it."""
    open_text: str = field(name="open")
    high_text: str = field(name="high")
    low_text: str = field(name="low")
    close_text: str = field(name="close")
    volume_text: str = field(name="volume")
    quote_volume_text: str | None = field(name="quote_volume", default=None)
    trades: int | None = None
    closed: bool = True
    """False while it may still change."""
    taker_buy_volume_text: str | None = field(name="taker_buy_volume", default=None)
    """The volume that takers bought; the rest they sold. None, like all below, if not sent."""
    taker_buy_quote_volume_text: str | None = field(name="taker_buy_quote_volume", default=None)
    first_trade_id: int | None = None
    last_trade_id: int | None = None
    vwap_text: str | None = field(name="vwap", default=None)
    """The volume-weighted average price as sent, so perhaps zero where nothing was traded."""

    @property
    def open(self) -> Decimal:
        return _exact(self.open_text)

    @property
    def high(self) -> Decimal:
        return _exact(self.high_text)

    @property
    def low(self) -> Decimal:
        return _exact(self.low_text)

    @property
    def close(self) -> Decimal:
        return _exact(self.close_text)

    @property
    def volume(self) -> Decimal:
        return _exact(self.volume_text)

    @property
    def taker_buy_volume(self) -> Decimal | None:
        return _decimal(self.taker_buy_volume_text)

    @property
    def vwap(self) -> Decimal | None:
        return _decimal(self.vwap_text)

    @property
    def summary(self) -> str:
        prices = f"{self.open_text} {self.high_text} {self.low_text} {self.close_text}"
        return f"candle {self.interval}: {prices}, volume {self.volume_text}"


class Disconnect(Event, frozen=True, kw_only=True, gc=False, tag="disconnect"):
    """Data may be missing: for a while nothing could be received.

    ``received_at_ns`` is when that was detected. A channel's next live event ends it.
    """

    channels: tuple[str, ...]
    """The channels of this symbol whose data may be missing."""
    reason: str
    since_ns: int | None = None
    """The time up to which everything was received; None if unknown."""
    cause: Cause = "disconnected"

    @property
    def summary(self) -> str:
        return f"connection of {', '.join(self.channels)} lost: {self.reason}"


def _decimal(text: str | None) -> Decimal | None:
    return None if text is None else _exact(text)


def _best(side: list[Level]) -> str:
    return f"{_plain(side[0][1])} at {_plain(side[0][0])}" if side else "none"


def _plain(value: Decimal) -> str:
    """A number without an exponent, unless it would be mostly zeros."""
    return f"{value:f}" if -_MOST_ZEROS < value.adjusted() < _MOST_ZEROS else str(value)


if compiled.Number is not None and compiled.Levels is not None:
    # The same properties, without a call of Python code.
    for _kind in (Trade, AggTrade, Ticker, Candle):
        for _text in _kind.__struct_fields__:
            _name = _text.removesuffix("_text")
            if isinstance(vars(_kind).get(_name), property):
                # Prices come again and again; sizes do not.
                _repeats = not _name.endswith(("quantity", "volume"))
                setattr(_kind, _name, compiled.Number(_text, _repeats))
    for _book in (BookDelta, BookSnapshot):
        for _name in ("bids", "asks"):
            _levels = compiled.Levels(f"{_name}_raw", as_decimals, _book is BookSnapshot)
            setattr(_book, _name, _levels)
