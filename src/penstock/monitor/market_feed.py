"""Reads the log for live markets: begins each from what is recorded, and follows it.

For one thread; see ``market_live``.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from penstock.books.rules import BookRules
from penstock.clock import Clock
from penstock.collect.status import CollectorStatus, read_all
from penstock.errors import MalformedSymbol, NotOurRecord, PenstockError, StorageError
from penstock.exchanges.registry import book_rules
from penstock.market.channels import AGG_TRADES, BOOK_DELTAS, BOOK_SNAPSHOTS, DISCONNECTS, TRADES
from penstock.market.events import BookSnapshot, Event
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol
from penstock.monitor.candle_series import CandleSeries
from penstock.monitor.market_documents import CandleInterval, MarketDocument
from penstock.monitor.market_names import Market, find_market
from penstock.monitor.market_view import MOST_TRADES, CollectorView, MarketView, can_begin
from penstock.monitor.trade_reading import TradeReading
from penstock.storage.log import EventLog, LogReader
from penstock.storage.log.keys import SECOND_NS, Stream

_BOOK = (BOOK_DELTAS.name, BOOK_SNAPSHOTS.name)
_LEAD_NS = 10 * SECOND_NS
"""Changes are read from this long before a snapshot: a fetched one may be older than they are."""
_MOST_REPLAYED_NS = 600 * SECOND_NS
"""The most time of changes that is applied to a snapshot before a book is shown."""
_STARTS = 32
"""How many snapshots are looked at."""
_STATUS_NS = SECOND_NS
_LISTING_NS = 5 * SECOND_NS
_UNLISTED_NS = SECOND_NS
_MOST_IN_CANDLE = 100_000
"""The most trades that are read for the current candle."""
_RECENT = 1000


class Watch(NamedTuple):
    """What a viewer asks for."""

    exchange: str
    symbol: str
    """In any spelling but the exchange's own."""
    interval: CandleInterval = "1m"


@dataclass(frozen=True)
class _Followed:
    view: MarketView
    streams: tuple[Stream, ...]
    trades: Stream | None
    channels: frozenset[str]
    """What was recorded of it when it was begun."""


class MarketFeed:
    """The markets that are shown now. Every method may raise StorageError."""

    def __init__(self, log: EventLog, folder: Path, clock: Clock) -> None:
        self._folder, self._clock = folder, clock
        self._reader: LogReader = log.reader()
        self._follower = self._reader.follower()
        self._followed: dict[Market, _Followed] = {}
        self._listed: dict[Market, frozenset[str]] = {}
        """The channels of each market."""
        self._streams: list[Stream] = []
        self._listed_ns: int | None = None
        self._collectors: dict[tuple[str, str], list[CollectorView]] = {}
        """What each collector said of each book, by exchange and slug."""
        self._statuses_ns: int | None = None

    def documents(self, asked: Iterable[Watch]) -> dict[Watch, MarketDocument | PenstockError]:
        """The documents of these markets, or why there is none. Others are forgotten."""
        now_ns, now_ms = self._clock.monotonic_ns(), self._clock.now_ms()
        self._list(now_ns, _LISTING_NS)
        found: dict[Watch, Market | PenstockError] = {}
        for watch in asked:
            try:
                found[watch] = self._market(watch, now_ns)
            except PenstockError as error:
                if isinstance(error, StorageError):
                    raise
                found[watch] = error
        wanted = {each for each in found.values() if not isinstance(each, PenstockError)}
        for market in self._followed.keys() - wanted:
            self._follower.forget(self._followed.pop(market).streams)
        for market in sorted(wanted):
            self._begin(market)
        for _, slot, event in self._follower.new(now_ns):
            followed = self._followed.get((event.exchange, event.symbol))
            if followed is not None:
                followed.view.receive(slot, event)
        self._read_statuses(now_ns)
        return {
            watch: market
            if isinstance(market, PenstockError)
            else self._document(market, watch.interval, now_ms)
            for watch, market in found.items()
        }

    def close(self) -> None:
        """Close the log."""
        self._reader.close()

    def _document(self, market: Market, interval: CandleInterval, now_ms: int) -> MarketDocument:
        followed = self._followed[market]
        view = followed.view
        if followed.trades is not None and not view.has_chart(interval):
            length = Interval.parse(interval)
            series = CandleSeries(length)
            since_ns = length.open_of(now_ms) * 1_000_000
            read = TradeReading(self._reader, followed.trades, since_ns, most=_MOST_IN_CANDLE)
            recent: set[int] = set()
            for trades in read:
                series.add(trades)
                recent.update(each.id for each in trades[: _RECENT - len(recent)])
            # Without its first trades a candle would be wrong: then there is none until the next.
            since_ms = 0
            if not read.complete:
                series = CandleSeries(length)
                since_ms = length.next_open(length.open_of(now_ms))
            view.chart(interval, series, recent, since_ms)
        return view.document(interval, self._collector_of(market, view.book_slot, now_ms), now_ms)

    def _market(self, watch: Watch, now_ns: int) -> Market:
        """The market that a viewer means.

        Raises:
            NotCollected, NoData: there is none.
        """
        market: Market | None = None
        with suppress(MalformedSymbol):
            market = watch.exchange, Symbol.parse(watch.symbol)
        if market is None or market not in self._listed:
            # It may have been recorded just now; but a viewer may ask for what never is.
            self._list(now_ns, _UNLISTED_NS)
            market = find_market(self._streams, watch.exchange, watch.symbol)
        return market

    def _list(self, now_ns: int, period_ns: int) -> None:
        if self._listed_ns is not None and now_ns - self._listed_ns < period_ns:
            return
        self._listed_ns = now_ns
        streams = self._reader.streams()
        if streams == self._streams:
            return
        self._streams = streams
        found: dict[Market, set[str]] = {}
        for exchange, channel, slug in streams:
            found.setdefault((exchange, Symbol.parse(slug)), set()).add(channel)
        self._listed = {market: frozenset(channels) for market, channels in found.items()}

    def _begin(self, market: Market) -> None:
        """Begin a market, or begin it again if more is recorded of it than before."""
        channels = self._listed.get(market, frozenset())
        followed = self._followed.get(market)
        if followed is not None:
            if followed.channels == channels:
                return
            self._follower.forget(followed.streams)
        exchange, symbol = market
        names = [name for name in (TRADES.name, AGG_TRADES.name) if name in channels][:1]
        streams = {name: Stream(exchange, name, symbol.slug) for name in (*names, *_BOOK)}
        rules = None
        if channels & {*_BOOK}:
            rules = book_rules(exchange) or BookRules(begins="frame")
        view = MarketView(exchange, symbol, rules)
        trades = streams[names[0]] if names else None
        now_ns = self._clock.now_ns()
        if trades is not None:
            for slot, event in reversed(self._latest(trades, MOST_TRADES)):
                view.receive(slot, event)
            self._follower.follow(trades, now_ns)
        book: list[Stream] = []
        if rules is not None:
            disconnects = Stream(exchange, DISCONNECTS.name, symbol.slug)
            book = [*(streams[name] for name in _BOOK), disconnects]
            since_ns, view.waits = self._book_start(book, rules)
            for stream in book:
                self._follower.follow(stream, now_ns if since_ns is None else since_ns)
        followed_streams = (*book, *([trades] if trades else []))
        self._followed[market] = _Followed(view, followed_streams, trades, channels)

    def _book_start(self, book: Sequence[Stream], rules: BookRules) -> tuple[int | None, str]:
        """From when on to read a book's records; None and why, if none can be begun from."""
        deltas, snapshots, _ = book
        starts = [
            event
            for _, event in self._latest(snapshots, _STARTS)
            if isinstance(event, BookSnapshot) and can_begin(event, rules)
        ]
        if not starts:
            return None, "No snapshot of this book is recorded yet."
        last_ns = max((event.received_at_ns for _, event in self._latest(deltas, 1)), default=0)
        earliest_ns = last_ns - _MOST_REPLAYED_NS
        # A fetched one has the most levels; then come those that collectors record of their books.
        deep = [each for each in starts if rules.numbered and each.source == "rest"]
        usable = [each for each in (*deep, starts[0]) if each.received_at_ns >= earliest_ns]
        if not usable:
            age_s = (last_ns - starts[0].received_at_ns) // SECOND_NS
            return None, f"The last recorded snapshot is {age_s} s old: waiting for the next."
        received_ns = usable[0].received_at_ns
        return received_ns - (_LEAD_NS if rules.begins != "frame" else 0), ""

    def _latest(self, stream: Stream, limit: int) -> list[tuple[str, Event]]:
        """The records with the highest keys and their slots, highest first."""
        found: list[tuple[str, Event]] = []
        for stored in self._reader.scan(stream, reverse=True, limit=limit):
            with suppress(NotOurRecord):
                found.append((stored.slot, stored.event))
        return found

    def _read_statuses(self, now_ns: int) -> None:
        if self._statuses_ns is not None and now_ns - self._statuses_ns < _STATUS_NS:
            return
        self._statuses_ns = now_ns
        statuses: list[CollectorStatus] = []
        with suppress(NotOurRecord):
            statuses = read_all(self._folder)
        self._collectors = {}
        for status in statuses:
            for book in status.books:
                unwritten = status.troubles.get("log", "")
                view = CollectorView(status.at_ms, book, status.state, status.slot, unwritten)
                self._collectors.setdefault((status.exchange, book.symbol), []).append(view)

    def _collector_of(self, market: Market, slot: str, now_ms: int) -> CollectorView | None:
        """What a collector of a market, if given that with this slot, last said of its book.

        Of several, one with a synced book: the changes of all are applied here.
        """
        exchange, symbol = market
        found = self._collectors.get((exchange, symbol.slug), ())
        return max(
            (each for each in found if slot in ("", each.slot)),
            key=lambda each: (each.keeps_it(now_ms), each.at_ms),
            default=None,
        )
