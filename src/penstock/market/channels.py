"""The table of channels: one row for each kind of data that can be streamed and recorded.

Keys of the log, topics, de-duplication, stall detection, status, judge and command line read this
table; none of them decides by the class of an event or by the name of a channel. So a new channel
is one row, one event and its streams in the dialects: see docs/add-a-channel.md.
"""

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from msgspec.structs import astuple, replace

from penstock.errors import UnknownChannel
from penstock.market.columns import Column, columns_of
from penstock.market.events import (
    AggTrade,
    BookDelta,
    BookSnapshot,
    Candle,
    Disconnect,
    Event,
    Ticker,
    Ticker24h,
    Trade,
)
from penstock.market.interval import COMMON

IdKind = Literal["exchange_id", "update_id", "opening_time", "receipt"]
"""What identifies a record: the exchange's id of the event, the number of the update, the
millisecond in which a candle opens, or the time of receipt. The key in the log is made of it."""
DedupeKey = Callable[[Any], Hashable | None]
"""Returns what copies of an event share and no other event has; None if there is no such key."""


def no_id(_: Any) -> None:
    """The id of events that have none: their records are keyed by the time of receipt."""
    return


class Probe(NamedTuple):
    """How a probe by REST shows whether a silent stream has stalled."""

    id_of: Callable[[Any], int | None] = no_id
    """The id of an event that is compared with the id that the probe returns. Without one, the
    results of two probes are compared."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Channel:
    """One kind of data. Two channels never share a stream of the log."""

    name: str
    event: type[Event]
    """The class of its events. No other channel has the same."""
    id_kind: IdKind
    id_field: str | None = None
    """The field of an event that holds its id; None: events of this channel have no id."""
    dedupe_key: DedupeKey
    liveness: Probe | None = None
    """None: the channel may be silent for any time, and never counts as stalled."""
    suffix_field: str | None = None
    """For a family of channels, such as candles of several lengths: the field of an event that is
    the end of the channel's name."""
    suffixes: tuple[str, ...] = ()
    """The usual ends of a family's names."""
    is_final: Callable[[Any], bool] | None = None
    """For events that are sent before they are complete: whether one is complete. Others are not
    recorded, and a complete one that differs from the record of the same id replaces it."""
    carries: tuple[type[Event], ...] = ()
    """Events of other channels that its subscriptions may deliver too."""
    price_of: Callable[[Any], str] | None = None
    """The price of an event, which a status shows as the latest one."""
    formerly: str | None = None
    """The channel in whose stream older versions recorded its events."""
    is_subscribed: bool = True
    """False for records that penstock itself creates."""
    partition: Literal["day", "month"] = "day"
    """How much time one partition of its table in the lake spans."""

    @cached_property
    def id_of(self) -> Callable[[Any], int | None]:
        """Returns the id of an event. None: it has no id, and its record is keyed by receipt."""
        return no_id if self.id_field is None else attrgetter(self.id_field)

    @cached_property
    def suffix_of(self) -> Callable[[Any], str] | None:
        """Returns the end of the channel's name, for the events of a family."""
        return None if self.suffix_field is None else attrgetter(self.suffix_field)

    @property
    def stays_in_log(self) -> bool:
        """Whether records that are in the lake are kept in the log too.

        So are candles, because a correction is recognised by comparing it with the record, and the
        records of disconnects, which commands read. Both are few.
        """
        return self.is_final is not None or not self.is_subscribed

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of its table, besides those of every table."""
        return columns_of(self.event)

    def name_of(self, event: Event) -> str:
        """The channel of an event: the name of this row, or of one channel of a family."""
        return self.name if self.suffix_of is None else self.named(self.suffix_of(event))

    def named(self, suffix: str) -> str:
        """The name of one channel of a family."""
        return f"{self.name}_{suffix}"

    def suffix_in(self, name: str) -> str:
        """The end of a name that ``named`` has returned."""
        return name.removeprefix(self.named(""))

    def names(self) -> list[str]:
        """The name of this row, or the usual names of a family."""
        return [self.name] if self.suffix_of is None else list(map(self.named, self.suffixes))


def contents(event: Event) -> Hashable:
    """All fields of an event except its receive time, as a dedupe key."""
    return type(event), *astuple(replace(event, received_at_ns=0))


def _by_id(event: Trade | AggTrade) -> Hashable:
    return type(event), event.symbol, event.id


def _by_updates(event: BookDelta) -> Hashable | None:
    if event.final_update_id is None:
        return None
    return BookDelta, event.symbol, event.first_update_id, event.final_update_id


def _by_update(event: BookSnapshot) -> Hashable | None:
    if not event.update_id:
        return None
    return BookSnapshot, event.symbol, event.update_id, event.source


def _by_update_or_contents(event: Ticker) -> Hashable | None:
    if event.update_id is not None:
        return type(event), event.symbol, event.update_id
    return None if event.at_ns is None else contents(event)


def _by_receipt(event: Disconnect) -> Hashable:
    return Disconnect, event.symbol, event.received_at_ns


def _ticker_price(event: Ticker) -> str:
    return event.last_text or event.bid_text or ""


TRADES = Channel(
    name="trades",
    event=Trade,
    id_kind="exchange_id",
    id_field="id",
    dedupe_key=_by_id,
    liveness=Probe(attrgetter("id")),
    price_of=attrgetter("price_text"),
)
AGG_TRADES = Channel(
    name="agg_trades",
    event=AggTrade,
    id_kind="exchange_id",
    id_field="id",
    dedupe_key=_by_id,
    liveness=Probe(attrgetter("last_trade_id")),
    price_of=attrgetter("price_text"),
)
BOOK_DELTAS = Channel(
    name="book_deltas",
    event=BookDelta,
    id_kind="update_id",
    id_field="final_update_id",
    dedupe_key=_by_updates,
    liveness=Probe(attrgetter("final_update_id")),
    carries=(BookSnapshot,),
)
# Snapshots carry an update id but are keyed by receipt: two of them at one id may differ in depth,
# and an exchange without update ids gives all of them the same.
BOOK_SNAPSHOTS = Channel(
    name="book_snapshots",
    event=BookSnapshot,
    id_kind="receipt",
    dedupe_key=_by_update,
    liveness=Probe(),
)
TICKERS = Channel(
    name="tickers",
    event=Ticker,
    id_kind="update_id",
    id_field="update_id",
    dedupe_key=_by_update_or_contents,
    liveness=Probe(),
    price_of=_ticker_price,
)
TICKERS_24H = Channel(
    name="tickers_24h",
    event=Ticker24h,
    id_kind="receipt",
    dedupe_key=_by_update_or_contents,
    liveness=Probe(),
    price_of=_ticker_price,
    formerly="tickers",
)
CANDLES = Channel(
    name="candles",
    event=Candle,
    id_kind="opening_time",
    id_field="open_ms",
    dedupe_key=contents,
    liveness=Probe(),
    suffix_field="interval",
    suffixes=COMMON,
    is_final=attrgetter("closed"),
    partition="month",  # history goes back years, with few candles a day
)
DISCONNECTS = Channel(
    name="disconnects",
    event=Disconnect,
    id_kind="receipt",
    dedupe_key=_by_receipt,
    is_subscribed=False,
)

BY_EVENT: dict[type[Event], Channel] = {}
"""Every channel, by the class of its events."""
DEDUPE_KEYS: dict[type[Event], DedupeKey] = {}
"""The dedupe key of every channel, by the class of its events."""
SUFFIXES: dict[type[Event], Callable[[Any], str]] = {}
"""The end of the channel's name, by the class of a family's events."""
_by_name: dict[str, Channel] = {}
_callbacks: list[Callable[[], None]] = []


def register(channel: Channel) -> None:
    """Add a row to the table, before anything is subscribed or read.

    Raises:
        ValueError: another row has its name, its class of events or their tag in records.
    """
    tag = channel.event.__struct_config__.tag
    taken = {each.__struct_config__.tag for each in BY_EVENT}
    if channel.name in _by_name or channel.event in BY_EVENT or tag in taken:
        raise ValueError(f"channel {channel.name}: its name, event or tag {tag!r} is registered")
    _by_name[channel.name] = BY_EVENT[channel.event] = channel
    DEDUPE_KEYS[channel.event] = channel.dedupe_key
    if channel.suffix_of is not None:
        SUFFIXES[channel.event] = channel.suffix_of
    for callback in _callbacks:
        callback()


def when_registered(callback: Callable[[], None]) -> None:
    """Call this after every channel that is registered from now on."""
    _callbacks.append(callback)


for _row in (
    TRADES, AGG_TRADES, BOOK_DELTAS, BOOK_SNAPSHOTS, TICKERS, TICKERS_24H, CANDLES, DISCONNECTS,
):  # fmt: skip
    register(_row)


def find(name: str) -> Channel | None:
    """The row of a channel; None if there is none, as for a log of a newer version."""
    row = _by_name.get(name)
    if row is None:
        head, _, suffix = name.rpartition("_")
        family = _by_name.get(head)
        return family if family is not None and family.suffix_of and suffix else None
    return row if row.suffix_of is None else None


def recorded_in(name: str) -> list[str]:
    """The channels in whose streams the events of a subscription are recorded."""
    row = find(name)
    return [name, *(BY_EVENT[each].name for each in (row.carries if row is not None else ()))]


def check(
    names: Iterable[str], offered_by: str = "penstock", offered: Collection[str] | None = None
) -> None:
    """Check that these channels can be subscribed; ``offered``: only those of an exchange.

    Raises:
        UnknownChannel: one of them is not in the table, or not offered.
    """
    for name in names:
        row = find(name)
        if row is None or not row.is_subscribed:
            known = [n for each in BY_EVENT.values() if each.is_subscribed for n in each.names()]
            raise UnknownChannel("penstock", name, known)
        if offered is not None and name not in offered:
            raise UnknownChannel(offered_by, name, offered)
