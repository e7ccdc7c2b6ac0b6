"""Sends replayed events to the clients of a simulated exchange, in the order of the replay.

The simulated exchange reads subscriptions and keeps connections; the frames come from here instead
of from its market. A client that reads slowly is not disconnected: the replay waits for it.
"""

from collections import deque
from collections.abc import Iterable, Sequence

from penstock.clock import Clock
from penstock.market.channels import BOOK_SNAPSHOTS, BY_EVENT
from penstock.market.events import BookSnapshot, Event, Trade
from penstock.market.levels import write_levels
from penstock.market.symbol import Symbol
from penstock.playback.books import BookRebuilder, rules_of
from penstock.playback.native import NativeExchange, Wanted
from penstock.simulator.engine.exchange import SimulatedExchange, StreamFeed
from penstock.simulator.engine.sender import TICK_S, Sender
from penstock.simulator.engine.wire import Client
from penstock.storage.log import Received

_UNREAD_BYTES = 1024 * 1024
"""The replay waits while a client has more than this to read."""
_AT_ONCE = 500
_SETTLED_NS = 1_500_000_000
"""The replay begins when the subscriptions have not changed for this long."""
_TRADES = 1000


class ReplayedState:
    """What the replay has reached, for requests by REST."""

    def __init__(self, exchange: str, first_books: Iterable[BookSnapshot]) -> None:
        self._exchange = exchange
        self._first = {book.symbol: book for book in first_books}
        self._rebuilder = BookRebuilder()
        self._trades: dict[Symbol, deque[Trade]] = {}

    def receive(self, event: Event) -> bool:
        """Handle the next event; return whether clients get it.

        They do not get snapshots of a book that goes on, which the collector recorded.
        """
        if isinstance(event, Trade):
            self._trades.setdefault(event.symbol, deque(maxlen=_TRADES)).append(event)
        changed = self._rebuilder.receive(event)
        numbered = rules_of(self._exchange).numbered
        return changed or numbered or not isinstance(event, BookSnapshot)

    def book(self, symbol: Symbol) -> BookSnapshot | None:
        """See ``Recorded``."""
        return self.synced_book(symbol) or self._first.get(symbol)

    def synced_book(self, symbol: Symbol) -> BookSnapshot | None:
        """The book as the replay has it; None unless it is synced."""
        found = self._rebuilder.find((self._exchange, symbol))
        if found is None:
            return None
        return BookSnapshot(
            exchange=self._exchange,
            symbol=symbol,
            received_at_ns=0,
            update_id=found.update_id,
            at_ns=found.at_ns,
            bids_raw=write_levels(found.bids),
            asks_raw=write_levels(found.asks),
            checksum=found.checksum,
        )

    def trades(self, symbol: Symbol) -> Sequence[Trade]:
        """See ``Recorded``."""
        return [*self._trades.get(symbol, ())]


class ReplaySender(Sender):
    """Keeps the subscriptions of all clients, and sends them what is replayed."""

    def __init__(
        self,
        exchange: SimulatedExchange,
        native: NativeExchange,
        state: ReplayedState,
        clock: Clock,
    ) -> None:
        super().__init__(exchange, clock)
        self._native, self._state = native, state
        self._subscribed: dict[tuple[str, Symbol], dict[tuple[int, str], Client]] = {}
        """By channel and market: the clients and the streams by which they get it."""
        self._own: dict[tuple[int, str], tuple[Client, StreamFeed]] = {}
        """Heartbeats, which come from the simulated exchange."""
        self._changed_ns = clock.monotonic_ns()
        self._ticked_ms = clock.now_ms()

    @property
    def streams(self) -> int:
        """The number of subscriptions."""
        return sum(map(len, self._subscribed.values()))

    def resubscribe(self, client: Client, before: tuple[str, ...]) -> None:
        """See ``Sender``."""
        super().resubscribe(client, before)
        self._changed_ns = self._clock.monotonic_ns()

    async def run(self) -> None:
        """Send heartbeats and what is in the outboxes, until cancelled."""
        while True:
            await self._clock.sleep(TICK_S)
            now_ms = self._clock.now_ms()
            for (_, stream), (client, feed) in [*self._own.items()]:
                for payload in feed.frames(self._ticked_ms, now_ms):
                    self.put(client, stream, payload)
            self._ticked_ms = now_ms
            self._flush(now_ms)
            self._rate()

    async def settled(self) -> None:
        """Wait until clients have subscribed, and their subscriptions do not change any more."""
        while not self._subscribed or self._clock.monotonic_ns() - self._changed_ns < _SETTLED_NS:
            await self._clock.sleep(TICK_S)

    async def send(self, records: Sequence[Received]) -> None:
        """Send records, in order; wait for clients that have much to read."""
        for first in range(0, len(records), _AT_ONCE):
            for each in records[first : first + _AT_ONCE]:
                self._send(each.event)
            self._flush(self._clock.now_ms())
            await self._clock.sleep(0)
            while any(each.unread_bytes() > _UNREAD_BYTES for each in self._clients.values()):
                await self._clock.sleep(TICK_S)
                self._flush(self._clock.now_ms())

    def _send(self, event: Event) -> None:
        if not self._state.receive(event):
            return
        place = BY_EVENT[type(event)].name_of(event), event.symbol
        frames: dict[str, list[bytes]] = {}
        for (_, stream), client in self._subscribed.get(place, {}).items():
            if stream not in frames:
                frames[stream] = self._native.frames(event, stream)
            for payload in frames[stream]:
                self.put(client, stream, payload)

    def _flush(self, now_ms: int) -> None:
        for client in [*self._clients.values()]:
            if client.closed_ms is not None:
                self.detach(client)
            elif client.outbox:
                client.last_active_ms = now_ms
                client.flush()

    def _join(self, stream: str, client: Client, *, anew: bool) -> None:
        if not anew:
            return
        wanted = self._native.wanted(stream)
        if wanted is not None:
            for channel in wanted.channels:
                place = channel, wanted.symbol
                self._subscribed.setdefault(place, {})[client.id, stream] = client
            self._open(wanted, stream, client)
        elif stream.startswith(tuple(self._native.heartbeats)):
            feed = self._exchange.feed(stream, client.subscriber.dialect)
            if feed is not None:
                self._own[client.id, stream] = client, feed

    def _open(self, wanted: Wanted, stream: str, client: Client) -> None:
        book = self._state.synced_book(wanted.symbol)
        if book is not None and BOOK_SNAPSHOTS.name in wanted.channels:
            for payload in self._native.opening(book, stream):
                self.put(client, stream, payload)

    def _leave(self, stream: str, client: Client) -> None:
        self._own.pop((client.id, stream), None)
        wanted = self._native.wanted(stream)
        if wanted is None:
            return
        for channel in wanted.channels:
            subscribed = self._subscribed.get((channel, wanted.symbol), {})
            subscribed.pop((client.id, stream), None)
            if not subscribed:
                self._subscribed.pop((channel, wanted.symbol), None)
