"""A connection's life without its socket: events in, commands out.

Whoever owns the socket tells this machine what happened (opened, received, closed, woken, a
snapshot arrived), and afterwards carries out what it asks for (``take_commands``) and records what
it delivers (``take_events``). Live sockets, recordings and tests all drive the same machine.

    disconnected ── start ──→ connecting ── opened ──→ connected
                                  ↑                        │ closed, or no acknowledgement
                                  └──── woken ── reconnecting
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from penstock.market.events import AnyEvent, BookDelta, BookSnapshot
from penstock.market.symbol import Symbol
from penstock.resilience.backoff import Backoff
from penstock.streaming.asking import ACK_WITHIN_NS, SECOND_NS, Asking
from penstock.streaming.book_sync import BookSync
from penstock.streaming.dialect import (
    Ack,
    Dialect,
    Malformed,
    Notice,
    ReadsMany,
    Received,
    Refusal,
)
from penstock.streaming.disconnects import Disconnects
from penstock.streaming.streamed_book import StreamedBook

QUARANTINED = 100
"""Malformed frames, and refusals, kept for somebody to look at; older ones are forgotten."""
_GOOD_AFTER_NS = 5 * SECOND_NS
"""A book that stood so long before it went wrong is begun again at once."""
_EARLY_NS = SECOND_NS // 10
"""How much too early somebody may be woken by a clock that runs differently."""

State = Literal["disconnected", "connecting", "connected", "reconnecting"]


class Open(NamedTuple):
    """Open the socket."""


class Send(NamedTuple):
    """Send a text frame."""

    text: str


class Close(NamedTuple):
    """Close the socket; ``closed`` is expected to follow."""

    reason: str


class FetchSnapshot(NamedTuple):
    """After a pause, ask the exchange for a book; hand it in, or say that it could not be had."""

    symbol: Symbol
    after_s: float


class WakeAt(NamedTuple):
    """Call ``woken`` at this instant, or later."""

    at_ns: int


Command = Open | Send | Close | FetchSnapshot | WakeAt


@dataclass(frozen=True)
class Subscription:
    """What to stream."""

    channel: str
    symbols: tuple[Symbol, ...]


class Connection:
    """One stream connection, and the books it carries."""

    def __init__(
        self,
        dialect: Dialect,
        subscriptions: Sequence[Subscription],
        random: Callable[[], float],
        *,
        backoff: Backoff = Backoff(first_s=0.25, longest_s=30.0),  # noqa: B008 (frozen)
        keep_levels: bool = True,
        exchange: str = "",
    ) -> None:
        """``exchange`` is whose name disconnects are delivered under; without it none are."""
        self._dialect, self._backoff, self._random = dialect, backoff, random
        self._read = dialect.read
        self._read_many = dialect.read_many if isinstance(dialect, ReadsMany) else None
        self._asking = Asking(dialect)
        subscribed = [(each.channel, each.symbols) for each in subscriptions]
        self._disconnects = Disconnects(exchange, subscribed)
        named = [(each, dialect.streams(each.channel, each.symbols)) for each in subscriptions]
        self._groups = [names for _, names in named]
        if dialect.limits.mixed_channels:
            self._groups = [[name for names in self._groups for name in names]]
        self._book_streams = {
            name: symbol
            for wanted, names in named
            if wanted.channel == "book_deltas"
            for name, symbol in zip(names, wanted.symbols, strict=True)
        }
        self._stream_of = {symbol: name for name, symbol in self._book_streams.items()}
        self._names = {
            (wanted.channel, symbol): name
            for wanted, names in named
            for name, symbol in zip(names, wanted.symbols, strict=True)
        }
        self._begins = dialect.books.begins
        self.books: dict[Symbol, BookSync | StreamedBook] = {
            symbol: BookSync(keep_levels=keep_levels)
            if self._begins == "rest"
            else StreamedBook(dialect.books, keep_levels=keep_levels)
            for symbol in self._book_streams.values()
        }
        limits = dialect.limits
        self._ping_every_ns = round(limits.ping_every_s * SECOND_NS) if limits.ping else 0
        self.state: State = "disconnected"
        self.opened_at_ns: int | None = None
        """Since when it stands; None while it does not."""
        self.reconnects: Counter[str] = Counter()
        """How often the connection was lost, by reason."""
        self.malformed: Counter[str] = Counter()
        """Frames that could not be read, by reason."""
        self.quarantine: deque[Malformed] = deque(maxlen=QUARANTINED)
        self.refusals: deque[Refusal] = deque(maxlen=QUARANTINED)
        self.events: list[AnyEvent] = []
        """Received, and not taken yet."""
        self.commands: list[Command] = []
        """To be carried out, and not taken yet."""
        self._fetching: set[Symbol] = set()
        self._tries: Counter[Symbol] = Counter()
        """How often a book was begun in vain, since it last stood."""
        self._begins_at_ns: dict[Symbol, int] = {}
        """When a stream is asked for anew if its book has not begun by then."""
        self._begun_at_ns: dict[Symbol, int] = {}
        self._refused: Counter[str] = Counter()
        """How often a stream was refused since it was last acknowledged."""
        self._now_ns = 0
        self._retry = 0
        self._opens_at_ns = 0
        self._pings_at_ns = 0
        self._wakes_at_ns: int | None = None

    def start(self) -> None:
        """Begin: the first command is to open the socket."""
        if self.state == "disconnected":
            self.state = "connecting"
            self.commands.append(Open())

    def opened(self, at_ns: int) -> None:
        """The socket is open: ask for everything."""
        self.state, self._wakes_at_ns = "connected", None
        self.opened_at_ns = at_ns
        self._pings_at_ns = at_ns + self._ping_every_ns
        self._asking.clear(at_ns)
        for names in self._groups:
            self._asking.ask(names)
        self._send_due(at_ns)

    def received(self, frame: bytes | str, at_ns: int) -> None:
        """A frame arrived."""
        self._now_ns = at_ns
        self._note(self._read(frame, at_ns))

    def received_many(self, frames: Sequence[bytes | str], at_ns: Sequence[int]) -> None:
        """Frames arrived, each at its instant: the same as one by one, in less time."""
        if self._read_many is not None and len(frames) > 1:
            events = self._read_many(frames, at_ns)
            if events is not None:
                self._deliver(events)
                return
        for frame, each_at_ns in zip(frames, at_ns, strict=True):
            self.received(frame, each_at_ns)

    def closed(self, reason: str, at_ns: int) -> None:
        """The socket is closed, or could not be opened: try again after a while."""
        if self.state == "disconnected":
            return
        if self.state == "connected":
            self.events += self._disconnects.mark(reason, at_ns)
        self.state, self.opened_at_ns = "reconnecting", None
        self.reconnects[reason] += 1
        self._asking.clear(at_ns)
        self._begins_at_ns.clear()
        for book in self.books.values():
            book.distrust(f"disconnected: {reason}")
        wait_s = self._backoff.delay(self._retry, self._random())
        self._retry += 1
        self._opens_at_ns = at_ns + round(wait_s * SECOND_NS)
        self.commands.append(WakeAt(self._opens_at_ns))

    def woken(self, at_ns: int) -> None:
        """Time has passed: do what is due."""
        if self.state == "reconnecting" and at_ns >= self._opens_at_ns:
            self.state = "connecting"
            self.commands.append(Open())
        elif self.state == "connected":
            if self._wakes_at_ns is not None and at_ns >= self._wakes_at_ns - _EARLY_NS:
                self._wakes_at_ns = None
            self._now_ns = at_ns
            overdue = self._asking.overdue(at_ns)
            if overdue.silent:
                self._asking.clear(at_ns)
                self.commands.append(Close("no acknowledgement"))
                return
            if overdue.given_up:
                self._refuse(Refusal(None, "silent", "no acknowledgement", overdue.given_up))
            self._send_due(at_ns)

    def snapshot_arrived(self, snapshot: BookSnapshot) -> None:
        """A book that was asked for: the new baseline, recorded like any event."""
        self._fetching.discard(snapshot.symbol)
        self.events.append(snapshot)
        book = self.books[snapshot.symbol]
        assert isinstance(book, BookSync), "nobody asked for it"
        if book.wants_snapshot and book.join(snapshot):
            del self._tries[snapshot.symbol]
        elif book.wants_snapshot:
            self._fetch(snapshot.symbol)

    def snapshot_failed(self, symbol: Symbol) -> None:
        """A book could not be had; ask again if it is still wanted."""
        self._fetching.discard(symbol)
        if self.books[symbol].wants_snapshot:
            self._fetch(symbol)

    def ask_anew(self, channel: str, symbol: Symbol, at_ns: int) -> None:
        """End a stream that is mute and ask for it again, where there is a connection."""
        name = self._names.get((channel, symbol))
        if name is not None and self.state == "connected":
            self._asking.ask_anew(name)
            self._send_due(at_ns)

    def give_up(self, reason: str) -> None:
        """Close the socket, which is of no use, and open another."""
        if self.state == "connected":
            self.commands.append(Close(reason))

    def stop(self) -> None:
        """End for good."""
        if self.state in ("connecting", "connected"):
            self.commands.append(Close("stopped"))
        self.state = "disconnected"

    def take_events(self) -> list[AnyEvent]:
        """What was received since the last call, in order."""
        events, self.events = self.events, []
        return events

    def take_commands(self) -> list[Command]:
        """What is to be done since the last call, in order."""
        commands, self.commands = self.commands, []
        return commands

    def _note(self, said: Sequence[Received]) -> None:
        for each in said:
            if isinstance(each, tuple):
                self._control(each)
            else:
                self._deliver((each,))

    def _deliver(self, events: Sequence[AnyEvent]) -> None:
        self.events.extend(events)
        books, in_stream = self.books, self._begins != "rest"
        for event in events:
            # Asking an event for its class with isinstance takes four times as long.
            if type(event) is BookDelta:
                book = books.get(event.symbol)
                if book is not None:
                    book.receive(event)
                    if book.wants_snapshot:
                        self._begin(event.symbol, event.received_at_ns)
            elif in_stream and type(event) is BookSnapshot:
                self._begun(event)

    def _control(self, said: Ack | Refusal | Notice | Malformed) -> None:
        if isinstance(said, Malformed):
            self.malformed[said.reason] += 1
            self.quarantine.append(said)
            if not self._dialect.books.shows_loss:
                self._doubt_books(said)
        elif isinstance(said, Notice):
            self.commands.append(Close("the exchange announced its shutdown"))
        else:
            if isinstance(said, Ack):
                for name in self._asking.answered(said.request_id, said.names):
                    del self._refused[name]
            else:
                self._refuse(said)
            if self._asking.settled:
                self._retry = 0  # everything asked for is answered: the connection is good

    def _doubt_books(self, said: Malformed) -> None:
        """Begin again what may have lost a change, where nothing but its absence would tell."""
        name = said.stream
        for symbol in [self._book_streams.get(name)] if name else [*self.books]:
            book = self.books[symbol] if symbol else None
            if symbol and isinstance(book, StreamedBook) and book.state == "synced":
                book.doubt(f"a frame could not be read: {said.words}")
                self._begin(symbol, self._now_ns)

    def _refuse(self, said: Refusal) -> None:
        """Some streams cannot be had, for now: ask for them again, ever more slowly."""
        self.refusals.append(said)
        names = self._asking.answered(said.request_id, said.names)
        for name in names:
            self._refused[name] += 1
            symbol = self._book_streams.get(name)
            if symbol is not None:
                self.books[symbol].distrust(f"refused: {said.words}")
                self._begins_at_ns.pop(symbol, None)
        if names:
            tries = max(self._refused[name] for name in names)
            pause_s = self._backoff.delay(tries - 1, self._random())
            self._asking.ask_later(names, self._now_ns + round(pause_s * SECOND_NS))
            self._wake_for_next()

    def _begun(self, snapshot: BookSnapshot) -> None:
        """A snapshot came in the stream."""
        symbol, at_ns = snapshot.symbol, snapshot.received_at_ns
        book = self.books.get(symbol)
        if isinstance(book, StreamedBook):
            book.begin(snapshot)
            if not self._asking.settled:  # that the stream has begun is an answer too
                self._asking.answered(None, (self._stream_of[symbol],))
            if book.wants_snapshot:
                self._begin(symbol, at_ns)
            else:
                self._begins_at_ns.pop(symbol, None)
                self._begun_at_ns[symbol] = at_ns

    def _begin(self, symbol: Symbol, at_ns: int) -> None:
        """Do what gets a book that was lost its snapshot."""
        if self._begins == "rest":
            self._fetch(symbol)
        elif self._begins == "stream" and symbol not in self._begins_at_ns:
            if at_ns - self._begun_at_ns.get(symbol, at_ns) > _GOOD_AFTER_NS:
                del self._tries[symbol]
            self._begins_at_ns[symbol] = at_ns + self._pause_ns(symbol)
            self._send_due(at_ns)

    def _fetch(self, symbol: Symbol) -> None:
        if symbol not in self._fetching:
            self._fetching.add(symbol)
            self.commands.append(FetchSnapshot(symbol, self._pause_ns(symbol) / SECOND_NS))
            self._tries[symbol] += 1

    def _pause_ns(self, symbol: Symbol) -> int:
        """How long to wait before a book is begun once more: at first not at all, then longer."""
        tries = self._tries[symbol]
        pause_s = self._backoff.delay(tries - 1, self._random()) if tries else 0.0
        return round(pause_s * SECOND_NS)

    def _send_due(self, at_ns: int) -> None:
        """Send what is due, and ask to be woken for what is not."""
        for symbol in [each for each, due_ns in self._begins_at_ns.items() if due_ns <= at_ns]:
            self._asking.ask_anew(self._stream_of[symbol])
            self._tries[symbol] += 1
            self._wait_for_book(self._stream_of[symbol], at_ns)
        for text, names in self._asking.take_due(at_ns):
            self.commands.append(Send(text))
            for name in names:
                self._wait_for_book(name, at_ns)
        if self._ping_every_ns and at_ns >= self._pings_at_ns:
            self.commands.append(Send(self._dialect.limits.ping))
            self._pings_at_ns = at_ns + self._ping_every_ns
        self._wake_for_next()

    def _wait_for_book(self, name: str, at_ns: int) -> None:
        """Give a stream that was asked for some time to begin with a snapshot."""
        symbol = self._book_streams.get(name)
        if symbol is not None and self._begins == "stream":
            self._begins_at_ns[symbol] = at_ns + ACK_WITHIN_NS + self._pause_ns(symbol)

    def _wake_for_next(self) -> None:
        due = [*self._begins_at_ns.values()]
        if (next_ns := self._asking.next_ns()) is not None:
            due.append(next_ns)
        if self._ping_every_ns:
            due.append(self._pings_at_ns)
        at_ns = min(due, default=None)
        if at_ns is not None and (self._wakes_at_ns is None or at_ns < self._wakes_at_ns):
            self._wakes_at_ns = at_ns
            self.commands.append(WakeAt(at_ns))
