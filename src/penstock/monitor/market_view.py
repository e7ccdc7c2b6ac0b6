"""One market as its page shows it: records in, document out. Without a log and without a clock.

The book is one of ``books``, kept in step as a collector keeps it. It begins from a recorded
snapshot. As the price moves, fewer of the levels that this one showed are near it: then the book
continues from a later one.
"""

from bisect import insort
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from operator import itemgetter
from typing import NamedTuple

from penstock.books.book import Book, Sides
from penstock.books.book_set import new_book
from penstock.books.known_depth import Ends, KnownDepth
from penstock.books.rules import BookRules
from penstock.collect.status import BookStatus
from penstock.errors import MalformedLevels
from penstock.market.channels import BOOK_DELTAS
from penstock.market.events import AggTrade, BookDelta, BookSnapshot, Disconnect, Event, Trade
from penstock.market.levels import split_levels
from penstock.market.symbol import Symbol
from penstock.monitor.candle_series import CandleSeries, Place, Traded
from penstock.monitor.market_documents import (
    Badge,
    BookSides,
    CandleInterval,
    CandleRow,
    MarketDocument,
    TradeRow,
)

MOST_LEVELS = 50
MOST_TRADES = 50
_REMEMBERED = 4096
"""Ids of recent trades that are remembered: a trade that two slots hold is counted once."""
_STATUS_OLD_MS = 15_000
"""Collectors write a status every second."""
_BEHIND_MS = 5_000
"""After this long, a book without any change needs a newer status, and one with changes must have
all that the collector had."""
_RECENT_DELTAS = 256
"""Changes that are kept: a snapshot may be received after some that follow it."""
_LEFT = (
    "The price has left what the last recorded snapshot showed: levels may be missing until the"
    " next one."
)


class CollectorView(NamedTuple):
    """What a collector last said about the book of a market."""

    at_ms: int
    book: BookStatus
    state: str
    """That of the collector."""
    slot: str = ""
    unwritten: str = ""
    """Why it cannot write the log, if it cannot."""

    def keeps_it(self, now_ms: int) -> bool:
        """Whether it reported lately that its book is synced."""
        is_synced = self.state == "running" and self.book.state == "synced"
        return is_synced and now_ms - self.at_ms <= _BEHIND_MS


@dataclass
class _Chart:
    series: CandleSeries
    included: Collection[int]
    """The newest trades that are in it already."""
    since_ms: int
    """Candles that opened before this lack trades."""


class MarketView:
    """One market's book, latest trades and current candles."""

    def __init__(self, exchange: str, symbol: Symbol, rules: BookRules | None) -> None:
        """``rules`` are those of the exchange's books; None: no book is collected."""
        self.exchange, self.symbol = exchange, symbol
        self._rules = rules
        self._book: Book | None = None if rules is None else new_book(rules)
        self._book_slot = ""
        self._recent: deque[BookDelta] = deque(maxlen=_RECENT_DELTAS)
        self._ends = Ends()
        self._book_ns = self._last_ns = 0
        self._awaited = 0, 0
        """An update that a collector had, and when it said so."""
        self._tape: list[tuple[Place, TradeRow]] = []
        """Oldest first."""
        self._seen: deque[int] = deque(maxlen=_REMEMBERED)
        self._known: set[int] = set()
        """The ids in ``_seen``."""
        self._charts: dict[CandleInterval, _Chart] = {}
        self.waits = ""
        """Why the book was not begun, if it was not."""

    def receive(self, slot: str, event: Event) -> None:
        """Handle the next record, in the order of receipt."""
        self._last_ns = max(self._last_ns, event.received_at_ns)
        match event:
            case Trade() | AggTrade():
                self._trade(event)
            case BookDelta() if self._book is not None:
                if self._may_change(slot):
                    self._book_ns = max(self._book_ns, event.received_at_ns)
                    self._recent.append(event)
                    self._book.receive(event)
            case BookSnapshot() if self._book is not None:
                self._snapshot(self._book, slot, event)
            case Disconnect() if self._book is not None:
                if BOOK_DELTAS.name in event.channels and self._may_change(slot):
                    self._book.interrupt(event.reason)

    def chart(
        self,
        interval: CandleInterval,
        series: CandleSeries,
        included: Collection[int],
        since_ms: int = 0,
    ) -> None:
        """Keep the current candle of an interval, continuing from a series.

        ``included`` are the ids of the newest trades in it: they may be received again. Candles
        that opened before ``since_ms`` lack trades and are not shown.
        """
        self._charts[interval] = _Chart(series, included, since_ms)

    def has_chart(self, interval: CandleInterval) -> bool:
        """Whether the current candle of an interval is kept."""
        return interval in self._charts

    def document(
        self, interval: CandleInterval, collector: CollectorView | None, now_ms: int
    ) -> MarketDocument:
        """The market as of now."""
        (bids, asks), is_known = self._shown()
        badge, why = self._badge(collector, now_ms)
        if badge == "synced" and not is_known:
            badge, why = "resyncing", _LEFT
        bid, ask = bids[0][0] if bids else None, asks[0][0] if asks else None
        spread = bps = None
        if bid is not None and ask is not None:
            spread, bps = _spread(Decimal(bid), Decimal(ask))
        book = self._book
        numbered = book is not None and self._rules is not None and self._rules.numbered
        return MarketDocument(
            exchange=self.exchange,
            symbol=self.symbol.unified,
            badge=badge,
            why=why,
            sequence=book.update_id if numbered and book is not None and book.update_id else None,
            bid=bid,
            ask=ask,
            spread=spread,
            spread_bps=bps,
            book=BookSides(bids=bids, asks=asks),
            trades=[row for _, row in reversed(self._tape)],
            candle=self._candle(interval, now_ms),
            last_ms=self._last_ns // 1_000_000 or None,
            book_ms=self._book_ns // 1_000_000 or None,
        )

    @property
    def book_slot(self) -> str:
        """The slot whose changes make the book; empty if those of all slots do."""
        return "" if self._rules is None or self._rules.numbered else self._book_slot

    def _may_change(self, slot: str) -> bool:
        """Whether a record of this slot belongs to the book.

        Without update ids, changes that two collectors recorded cannot be put in one order.
        """
        assert self._rules is not None
        return self._rules.numbered or slot == self._book_slot

    def _trade(self, event: Trade | AggTrade) -> None:
        if event.id in self._known:
            return
        if len(self._seen) == _REMEMBERED:
            self._known.discard(self._seen[0])
        self._seen.append(event.id)
        self._known.add(event.id)
        place = event.at_ns, event.id
        # Trades that fill a gap, or a past year, are recorded at any time.
        if len(self._tape) < MOST_TRADES or place > self._tape[0][0]:
            row = TradeRow(
                id=str(event.id),
                at_ms=event.at_ms,
                price=event.price_text,
                quantity=event.quantity_text,
                side=event.taker,
            )
            insort(self._tape, (place, row), key=itemgetter(0))
            del self._tape[:-MOST_TRADES]
        for chart in self._charts.values():
            if event.id not in chart.included:
                chart.series.add([Traded(*place, event.price_text, event.quantity_text)])

    def _snapshot(self, book: Book, slot: str, snapshot: BookSnapshot) -> None:
        assert self._rules is not None
        if not can_begin(snapshot, self._rules):
            return
        silent_ns = snapshot.received_at_ns - self._book_ns
        # Its collector may have been killed; another one may keep the same book.
        is_left = not self._may_change(slot) and silent_ns > _STATUS_OLD_MS * 1_000_000
        try:
            if self._rules.begins == "frame" or book.state != "synced" or is_left:
                if book.begin(snapshot):
                    self._book_slot = slot
                    self._ends = self._ends_of(snapshot)
            elif self._rules.numbered and min(map(len, self._known_sides(book))) < MOST_LEVELS:
                self._continue_from(snapshot, book.update_id)
        except MalformedLevels as error:
            book.invalidate(f"snapshot: {error}")
        if self._may_change(slot):
            self._book_ns = max(self._book_ns, snapshot.received_at_ns)

    def _continue_from(self, snapshot: BookSnapshot, update_id: int) -> None:
        """Replace the book by one that begins from a later snapshot, if that reaches as far."""
        assert self._rules is not None
        fresh = new_book(self._rules)
        for delta in self._recent:
            fresh.receive(delta)
        if fresh.begin(snapshot) and fresh.update_id >= update_id:
            self._book = fresh

    def _ends_of(self, snapshot: BookSnapshot) -> Ends:
        """Where a book ends that began from a snapshot and does not keep that itself."""
        assert self._rules is not None
        if self._rules.begins != "stream" or self._rules.depth is not None:
            return Ends()
        bids, asks = split_levels(snapshot.bids_raw), split_levels(snapshot.asks_raw)
        return Ends(Decimal(bids[-1][0]) if bids else None, Decimal(asks[-1][0]) if asks else None)

    def _known_sides(self, book: Book) -> Sides:
        """The best levels, as far as they are known."""
        if book.levels is None:
            return [], []
        ends = KnownDepth(1).ends(book).within(self._ends)
        return ends.known(book.levels.texts(MOST_LEVELS))

    def _shown(self) -> tuple[Sides, bool]:
        """The levels that are shown, and whether all of them are known."""
        book = self._book
        if book is None or book.levels is None:
            return ([], []), True
        every, known = book.levels.texts(MOST_LEVELS), self._known_sides(book)
        if any(all_ and not some for all_, some in zip(every, known, strict=True)):
            return every, False
        return known, True

    def _candle(self, interval: CandleInterval, now_ms: int) -> CandleRow | None:
        for each in self._charts.values():  # also of intervals that nobody asks for any more
            each.series.drop_before(each.series.interval.open_of(now_ms))
        chart = self._charts.get(interval)
        if chart is None:
            return None
        series = chart.series
        open_ms = series.interval.open_of(now_ms)
        row = series.row(open_ms) if open_ms >= chart.since_ms else None
        if row is None:
            return None
        at_ms, open_, high, low, close, volume = row
        return CandleRow(
            interval=interval,
            at_ms=at_ms,
            open=open_,
            high=high,
            low=low,
            close=close,
            volume=volume,
        )

    def _badge(self, collector: CollectorView | None, now_ms: int) -> tuple[Badge, str]:
        book = self._book
        if book is None:
            return "no book", "The order book of this market is not collected."
        if collector is None:
            return "stale", "No collector of this folder keeps this book."
        theirs = collector.book
        if collector.state != "running" or theirs.state == "stopped":
            return "stale", f"The collector is not running: it is {collector.state}."
        old_ms = now_ms - collector.at_ms
        if old_ms > _STATUS_OLD_MS:
            return "stale", f"The collector has written no status for {old_ms // 1000} s."
        silent_ms = now_ms - max(collector.at_ms, self._book_ns // 1_000_000)
        if silent_ms > _BEHIND_MS:
            return "stale", f"Neither a change nor a status was written for {silent_ms // 1000} s."
        if theirs.state != "synced":
            return "resyncing", theirs.reason
        if book.state != "synced":
            return "resyncing", self.waits or book.reason
        if self._is_behind(book, collector, now_ms):
            return "stale", f"{theirs.update_id - book.update_id} updates behind the collector."
        if collector.unwritten:
            return "stale", f"The collector cannot write: {collector.unwritten}"
        return "synced", ""

    def _is_behind(self, book: Book, collector: CollectorView, now_ms: int) -> bool:
        """Whether the book lacks updates that the collector had a while ago."""
        awaited, since_ms = self._awaited
        if book.update_id >= awaited:
            awaited, since_ms = collector.book.update_id, collector.at_ms
        # There may be several collectors, and an exchange may begin to number again.
        awaited = min(awaited, collector.book.update_id)
        self._awaited = awaited, since_ms
        return awaited > book.update_id > 0 and now_ms - since_ms > _BEHIND_MS


def can_begin(snapshot: BookSnapshot, rules: BookRules) -> bool:
    """Whether a book can begin from a snapshot: a fetched one has no place without update ids."""
    return rules.numbered or snapshot.source == "live"


def _spread(bid: Decimal, ask: Decimal) -> tuple[str, str | None]:
    spread = ask - bid
    middle = (ask + bid) / 2
    return f"{spread:f}", f"{spread / middle * 10_000:.2f}" if middle else None
