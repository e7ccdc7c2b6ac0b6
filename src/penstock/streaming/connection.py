"""The state machine of one stream connection, without its socket: events in, commands out.

The owner of the socket calls a method for each event (opened, received, closed, woken, a snapshot
arrived). Afterwards it executes the commands (``take_commands``) and records the market events
(``take_events``). Live sockets, recordings and tests all drive the same state machine.

    disconnected ── start ──→ connecting ── opened ──→ connected
                                  ↑                        │ closed, or no acknowledgement
                                  └──── woken ── reconnecting
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Literal

from penstock import compiled
from penstock.books.book import BookView
from penstock.books.book_set import BookSet
from penstock.books.events import BookEvent
from penstock.books.restarts import BookRestarts
from penstock.market.channels import BOOK_DELTAS
from penstock.market.events import BookDelta, BookSnapshot, Cause, Event
from penstock.market.symbol import Symbol
from penstock.resilience.backoff import Backoff
from penstock.streaming.commands import (
    Close,
    Command,
    Open,
    Rotate,
    Send,
    Subscription,
    WakeAt,
)
from penstock.streaming.dialect import Ack, Dialect, Malformed, Notice, ReadsMany, Refusal
from penstock.streaming.subscribe_requests import ACK_WITHIN_S, SECOND_NS, SubscribeRequests
from penstock.streaming.subscription_failures import SubscriptionFailures
from penstock.streaming.wanted import StreamKey, WantedStreams

QUARANTINED = 100
"""Malformed frames, and refusals, kept for inspection; older ones are dropped."""
# So many frames are read faster one by one.
_FEW = 2 if compiled.Reader is None else 1
_EARLY_NS = SECOND_NS // 10
"""How much too early a wake-up may be, from a clock that runs at a different rate."""

State = Literal["disconnected", "connecting", "connected", "reconnecting"]


class Connection:
    """One stream connection, and the books it carries."""

    def __init__(
        self,
        dialect: Dialect,
        subscriptions: Sequence[Subscription],
        random: Callable[[], float],
        *,
        backoff: Backoff = Backoff(first_s=0.25, longest_s=30.0),  # noqa: B008 (frozen)
        ack_within_s: float = ACK_WITHIN_S,
        keep_levels: bool = True,
    ) -> None:
        self._dialect, self._backoff, self._random = dialect, backoff, random
        self._read = dialect.read
        self._read_many = dialect.read_many if isinstance(dialect, ReadsMany) else None
        self._ack_within_s = ack_within_s
        self._wanted = WantedStreams(dialect)
        ack_within_ns = round(ack_within_s * SECOND_NS)
        self._requests = SubscribeRequests(dialect, self._wanted.group_of, ack_within_ns)
        self.failures = SubscriptionFailures(self._wanted.key)
        self._in_stream = not dialect.books.numbered
        restarts = BookRestarts(backoff, random, ack_within_ns)
        self.books = BookSet(dialect.books, restarts, self._issue, keep_levels=keep_levels)
        for wanted in subscriptions:
            self._add_books(self._wanted.add(wanted))
        limits = self.limits = dialect.limits
        self._ping_every_ns = round(limits.ping_every_s * SECOND_NS) if limits.ping else 0
        self.state: State = "disconnected"
        self.reconnects: Counter[str] = Counter()
        """How often the connection was lost, by reason."""
        self.malformed: Counter[str] = Counter()
        """Frames that could not be read, by reason."""
        self.quarantine: deque[Malformed] = deque(maxlen=QUARANTINED)
        self.refusals: deque[Refusal] = deque(maxlen=QUARANTINED)
        self.events: list[Event] = []
        """Received, and not taken yet."""
        self.commands: list[Command] = []
        """To be executed, and not taken yet."""
        self._interruptions: list[tuple[StreamKey, str, Cause]] = []
        self._now_ns = self._retry = self._opens_at_ns = self._pings_at_ns = 0
        self._wakes_at_ns: int | None = None

    def start(self) -> None:
        """Start; the first command is to open the socket."""
        if self.state == "disconnected":
            self.state = "connecting"
            self.commands.append(Open())

    def opened(self, at_ns: int) -> None:
        """Handle an opened socket: subscribe to all streams."""
        self.state, self._wakes_at_ns = "connected", None
        self._pings_at_ns = at_ns + self._ping_every_ns
        self._requests.clear(at_ns)
        self._requests.ask(self._wanted.names(self._wanted))
        self._send_due(at_ns)

    def add(self, wanted: Subscription, at_ns: int) -> None:
        """Add streams; the running ones are not affected.

        Raises:
            UnknownChannel, UnknownSymbol: the exchange does not have it; nothing was changed.
        """
        fresh = self._wanted.add(wanted)
        self._add_books(fresh)
        if self.state == "connected":
            self._requests.ask(self._wanted.names(fresh))
            self._send_due(at_ns)

    def remove(self, wanted: Subscription, at_ns: int) -> None:
        """Remove streams; the others are not affected."""
        names = self._wanted.remove(wanted)
        self.failures.clear(names)
        for symbol in wanted.symbols if wanted.channel == BOOK_DELTAS.name else ():
            self.books.remove(symbol)
        # Also while disconnected: some dialects request everything that was not unsubscribed.
        self._requests.end(names)
        if names and self.state == "connected":
            self._send_due(at_ns)

    def resubscribe(self, channel: str, symbol: Symbol, at_ns: int) -> None:
        """Unsubscribe a stream and subscribe again: it may be stalled."""
        name = self._wanted.name(channel, symbol)
        if name is not None and self.state == "connected":
            self._interruptions.append(((channel, symbol), "resubscribed", "asked_anew"))
            self._requests.resubscribe(name)
            self._send_due(at_ns)

    def received(self, frame: bytes | str, at_ns: int) -> None:
        """Handle a frame."""
        self._now_ns = at_ns
        for each in self._read(frame, at_ns):
            if isinstance(each, tuple):
                self._control(each)
                continue
            self.events.append(each)
            # isinstance takes four times as long for events.
            if type(each) is BookDelta:
                self._changed(each)
            elif self._in_stream and type(each) is BookSnapshot:
                self._begun(each)

    def received_many(self, frames: Sequence[bytes | str], at_ns: Sequence[int]) -> None:
        """Handle frames, each with its receive time: like ``received`` for each, but faster."""
        count, read_many = len(frames), self._read_many
        if count == 1:
            self.received(frames[0], at_ns[0])
        elif count > _FEW and read_many and (events := read_many(frames, at_ns)) is not None:
            self._deliver(events)
        elif read_many is None or count <= _FEW:
            for each in zip(frames, at_ns, strict=True):
                self.received(*each)
        else:  # one is an answer, or malformed: the others may still be read together
            half = count // 2
            self.received_many(frames[:half], at_ns[:half])
            self.received_many(frames[half:], at_ns[half:])

    def closed(self, reason: str, at_ns: int) -> None:
        """Handle a closed socket, or a failed connect: reconnect after a delay."""
        if self.state == "disconnected":
            return
        self.state = "reconnecting"
        self.reconnects[reason] += 1
        self._requests.clear(at_ns)
        self.books.interrupt_all(f"disconnected: {reason}")
        wait_s = self._backoff.delay(self._retry, self._random())
        self._retry += 1
        self._opens_at_ns = at_ns + round(wait_s * SECOND_NS)
        self.commands.append(WakeAt(self._opens_at_ns))

    def woken(self, at_ns: int) -> None:
        """Do what is due at this time."""
        if self.state == "reconnecting" and at_ns >= self._opens_at_ns:
            self.state = "connecting"
            self.commands.append(Open())
        elif self.state == "connected":
            if self._wakes_at_ns is not None and at_ns >= self._wakes_at_ns - _EARLY_NS:
                self._wakes_at_ns = None
            self._now_ns = at_ns
            overdue = self._requests.overdue(at_ns)
            if overdue.names:
                self.failures.miss(overdue.names, self._ack_within_s)
            if overdue.silent:
                self._requests.clear(at_ns)
                self.commands.append(Close("no acknowledgement"))
                return
            if overdue.given_up:
                times = self.failures.times(overdue.given_up)
                self._put_off(overdue.given_up, times, "not acknowledged")
            self._send_due(at_ns)

    def snapshot_arrived(self, snapshot: BookSnapshot) -> None:
        """Handle a requested snapshot: the new baseline of its book, recorded like any event."""
        self.events.append(snapshot)
        self.books.fetched(snapshot)

    def snapshot_failed(self, symbol: Symbol) -> None:
        """Handle a failed snapshot request; repeat it if the book still needs one."""
        self.books.fetch_failed(symbol)

    def join_book(self, symbol: Symbol, other: BookView) -> bool:
        """Start a book from another connection's copy; return whether that was possible."""
        return self.books.join(symbol, other)

    def book_event(self, symbol: Symbol, event: BookEvent, at_ns: int) -> None:
        """Handle an event of a book that does not come from its stream."""
        if symbol in self.books:
            self.books.handle(symbol, event)
            if self.state == "connected" and self.books[symbol].wants_snapshot:
                self._restart(symbol, at_ns)

    def fill_holes(self, others: Sequence["Connection"], until_ns: int) -> None:
        """Fill gaps in books with deltas of other connections; see ``BookSet``."""
        for symbol in self.books.fill_holes([other.books for other in others], until_ns):
            self._restart(symbol, self._now_ns)

    @property
    def beginning(self) -> bool:
        """Whether a book waits for a snapshot in its stream."""
        return bool(self.books.restarts.instants_ns())

    @property
    def settled(self) -> bool:
        """Whether it is connected and every request was answered."""
        return self.state == "connected" and self._requests.settled

    @property
    def asked(self) -> int:
        """The number of wanted streams."""
        return len(self._wanted)

    @property
    def pending(self) -> list[str]:
        """Streams that were requested, or are about to be, and not acknowledged yet."""
        return list(dict.fromkeys(self._requests.pending() + self.failures.unanswered))

    @property
    def unheard(self) -> frozenset[str]:
        """Streams without data so far, where only data acknowledges them."""
        return self._requests.unheard

    def stop(self, reason: str = "stopped") -> None:
        """Stop for good."""
        if self.state in ("connecting", "connected"):
            self.commands.append(Close(reason))
        self.books.cancel_fetches()
        self.state = "disconnected"

    def take_events(self) -> list[Event]:
        """Return the events received since the last call, in order."""
        events, self.events = self.events, []
        return events

    def take_interruptions(self) -> list[tuple[StreamKey, str, Cause]]:
        """Return the streams that were interrupted while connected since the last call, and why."""
        interruptions, self._interruptions = self._interruptions, []
        return interruptions

    def carried(self) -> set[StreamKey]:
        """Return the streams that this connection delivers, as far as known."""
        return {*self._wanted} - {*map(self._wanted.key, self.pending)} - self.failures.refused

    def take_commands(self) -> list[Command]:
        """Return the commands issued since the last call, in order."""
        commands, self.commands = self.commands, []
        return commands

    def _deliver(self, events: Sequence[Event]) -> None:
        self.events.extend(events)
        if self.books.apply(events, self._changed):
            return
        in_stream = self._in_stream
        for event in events:
            if type(event) is BookDelta:
                self._changed(event)
            elif in_stream and type(event) is BookSnapshot:
                self._begun(event)

    def _changed(self, delta: BookDelta) -> None:
        book = self.books.get(delta.symbol)
        if book is not None:
            book.receive(delta)
            if book.wants_snapshot:
                self._restart(delta.symbol, delta.received_at_ns)
            elif book.held:
                self.books.holes.add(delta.symbol)

    def _control(self, message: Ack | Refusal | Notice | Malformed) -> None:
        if isinstance(message, Malformed):
            self.malformed[message.reason] += 1
            self.quarantine.append(message)
            if not self._dialect.books.shows_loss:
                self._doubt_books(message)
        elif isinstance(message, Notice):
            self.commands.append(Rotate("the exchange announced its shutdown"))
        else:
            if isinstance(message, Ack):
                self.failures.clear(self._requests.answered(message.request_id, message.names))
            else:
                self._refuse(message)
            if self._requests.settled:
                self._retry = 0  # every request is answered: the connection works

    def _doubt_books(self, message: Malformed) -> None:
        """Restart books that may have lost a change, where no later message shows the loss."""
        name = message.stream
        for symbol in [self._wanted.book_of(name)] if name else [*self.books]:
            if symbol and self.books[symbol].state == "synced":
                self.books[symbol].invalidate(f"a frame could not be read: {message.words}")
                self._restart(symbol, self._now_ns)

    def _refuse(self, message: Refusal) -> None:
        """Handle a refusal: request the streams again, after growing delays."""
        self.refusals.append(message)
        names = self._requests.answered(message.request_id, message.names)
        if len(names) > 1 and not message.names:
            # One of them may be the cause, and it is not named: request each half separately.
            self._requests.ask_halves(names)
            self._send_due(self._now_ns)
            return
        times = self.failures.refuse(message, names)
        self._put_off(names, times, f"refused: {message.words}")

    def _put_off(self, names: Sequence[str], times: int, reason: str) -> None:
        """Request failed streams again, after a growing delay."""
        for symbol in filter(None, map(self._wanted.book_of, names)):
            self.books.interrupt(symbol, reason)
        if names:
            pause_s = self._backoff.delay(times - 1, self._random())
            self._requests.ask_later(names, self._now_ns + round(pause_s * SECOND_NS))
            self._wake_for_next()

    def _begun(self, snapshot: BookSnapshot) -> None:
        """Handle a snapshot in the stream."""
        symbol, at_ns = snapshot.symbol, snapshot.received_at_ns
        book = self.books.get(symbol)
        if book is not None:
            is_synced = book.begin(snapshot)
            if self.failures.open or not self._requests.settled:  # a snapshot acknowledges, too
                self.failures.clear(self._requests.answered(None, (self._book_stream(symbol),)))
            if is_synced:
                self.books.restarts.begun(symbol, at_ns)
            else:
                self._restart(symbol, at_ns)

    def _restart(self, symbol: Symbol, at_ns: int) -> None:
        """Restart a lost book."""
        if self.books.restart(symbol, at_ns):
            stream_key, reason = (BOOK_DELTAS.name, symbol), self.books[symbol].reason
            self._interruptions.append((stream_key, reason, "book"))
            self._send_due(at_ns)

    def _add_books(self, stream_keys: Sequence[StreamKey]) -> None:
        self.books.add(symbol for channel, symbol in stream_keys if channel == BOOK_DELTAS.name)

    def _issue(self, command: Command) -> None:
        self.commands.append(command)

    def _send_due(self, at_ns: int) -> None:
        """Send what is due, and request a wake-up for the rest."""
        restarts = self.books.restarts
        for symbol in restarts.due(at_ns):
            self._requests.resubscribe(self._book_stream(symbol))
            restarts.wait(symbol, at_ns, anew=True)
        for text, names in self._requests.take_due(at_ns):
            self.commands.append(Send(text))
            if self._dialect.books.begins == "stream":
                for symbol in filter(None, map(self._wanted.book_of, names)):
                    restarts.wait(symbol, at_ns)
        if self._ping_every_ns and at_ns >= self._pings_at_ns:
            self.commands.append(Send(self._dialect.limits.ping))
            self._pings_at_ns = at_ns + self._ping_every_ns
        self._wake_for_next()

    def _book_stream(self, symbol: Symbol) -> str:
        name = self._wanted.name(BOOK_DELTAS.name, symbol)
        assert name is not None, "there is a book only where its stream is wanted"
        return name

    def _wake_for_next(self) -> None:
        due = self.books.restarts.instants_ns()
        if (next_ns := self._requests.next_ns()) is not None:
            due.append(next_ns)
        if self._ping_every_ns:
            due.append(self._pings_at_ns)
        at_ns = min(due, default=None)
        if at_ns is not None and (self._wakes_at_ns is None or at_ns < self._wakes_at_ns):
            self._wakes_at_ns = at_ns
            self.commands.append(WakeAt(at_ns))
