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
from penstock.streaming.book_sync import BookSync
from penstock.streaming.dialect import Ack, Dialect, Malformed, Notice, Refusal

ACK_WITHIN_S = 5.0
QUARANTINED = 100
"""Malformed frames, and refusals, kept for somebody to look at; older ones are forgotten."""
_SECOND_NS = 1_000_000_000

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
    ) -> None:
        self._dialect, self._backoff, self._random = dialect, backoff, random
        self._read = dialect.read
        self._names = [
            name
            for wanted in subscriptions
            for name in dialect.streams(wanted.channel, wanted.symbols)
        ]
        self.books = {
            symbol: BookSync(keep_levels=keep_levels)
            for wanted in subscriptions
            if wanted.channel == "book_deltas"
            for symbol in wanted.symbols
        }
        self.state: State = "disconnected"
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
        self._to_send: deque[tuple[int, str]] = deque()
        self._unanswered: dict[int, int] = {}
        self._fetching: set[Symbol] = set()
        self._fetches: Counter[Symbol] = Counter()
        """Snapshots asked for in vain, since the book was last synced."""
        self._request_id = 0
        self._retry = 0
        self._opens_at_ns = 0
        self._sends_at_ns = 0

    def start(self) -> None:
        """Begin: the first command is to open the socket."""
        if self.state == "disconnected":
            self.state = "connecting"
            self.commands.append(Open())

    def opened(self, at_ns: int) -> None:
        """The socket is open: ask for everything."""
        self.state, self._sends_at_ns = "connected", at_ns
        step = self._dialect.limits.names_per_message
        for start in range(0, len(self._names), step):
            self._request_id += 1
            names = self._names[start : start + step]
            text = self._dialect.subscribe(names, self._request_id)
            self._to_send.append((self._request_id, text))
        self._send_due(at_ns)

    def received(self, frame: bytes | str, at_ns: int) -> None:
        """A frame arrived."""
        for said in self._read(frame, at_ns):
            # Asking an event for its class with isinstance takes four times as long.
            if type(said) is BookDelta:
                self.events.append(said)
                book = self.books.get(said.symbol)
                if book is not None:
                    book.receive(said)
                    if book.wants_snapshot:
                        self._fetch(said.symbol)
            elif isinstance(said, tuple):
                self._control(said)
            else:
                self.events.append(said)

    def closed(self, reason: str, at_ns: int) -> None:
        """The socket is closed, or could not be opened: try again after a while."""
        if self.state == "disconnected":
            return
        self.state = "reconnecting"
        self.reconnects[reason] += 1
        self._to_send.clear()
        self._unanswered.clear()
        for book in self.books.values():
            book.distrust(f"disconnected: {reason}")
        wait_s = self._backoff.delay(self._retry, self._random())
        self._retry += 1
        self._opens_at_ns = at_ns + round(wait_s * _SECOND_NS)
        self.commands.append(WakeAt(self._opens_at_ns))

    def woken(self, at_ns: int) -> None:
        """Time has passed: do what is due."""
        if self.state == "reconnecting" and at_ns >= self._opens_at_ns:
            self.state = "connecting"
            self.commands.append(Open())
        elif self.state == "connected":
            if any(due_ns <= at_ns for due_ns in self._unanswered.values()):
                self._unanswered.clear()
                self.commands.append(Close("no acknowledgement"))
            else:
                self._send_due(at_ns)

    def snapshot_arrived(self, snapshot: BookSnapshot) -> None:
        """A book that was asked for: the new baseline, recorded like any event."""
        self._fetching.discard(snapshot.symbol)
        self.events.append(snapshot)
        book = self.books[snapshot.symbol]
        if book.wants_snapshot and book.join(snapshot):
            del self._fetches[snapshot.symbol]
        elif book.wants_snapshot:
            self._fetch(snapshot.symbol)

    def snapshot_failed(self, symbol: Symbol) -> None:
        """A book could not be had; ask again if it is still wanted."""
        self._fetching.discard(symbol)
        if self.books[symbol].wants_snapshot:
            self._fetch(symbol)

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

    def _control(self, said: Ack | Refusal | Notice | Malformed) -> None:
        if isinstance(said, Malformed):
            self.malformed[said.reason] += 1
            self.quarantine.append(said)
        elif isinstance(said, Notice):
            self.commands.append(Close("the exchange announced its shutdown"))
        else:
            if said.request_id is not None:
                self._unanswered.pop(said.request_id, None)
            if isinstance(said, Refusal):
                self.refusals.append(said)
            if not self._unanswered and not self._to_send:
                self._retry = 0  # everything asked for is answered: the connection is good

    def _fetch(self, symbol: Symbol) -> None:
        if symbol in self._fetching:
            return
        tries = self._fetches[symbol]
        pause_s = self._backoff.delay(tries - 1, self._random()) if tries else 0.0
        self._fetches[symbol] += 1
        self._fetching.add(symbol)
        self.commands.append(FetchSnapshot(symbol, pause_s))

    def _send_due(self, at_ns: int) -> None:
        # Evenly spaced rather than in bursts: the exchange counts pongs as messages too, so one
        # place a second is left free for them.
        space_ns = _SECOND_NS // max(1, self._dialect.limits.messages_per_second - 1)
        while self._to_send and at_ns >= self._sends_at_ns:
            request_id, text = self._to_send.popleft()
            self.commands.append(Send(text))
            self._unanswered[request_id] = at_ns + round(ACK_WITHIN_S * _SECOND_NS)
            self._sends_at_ns = at_ns + space_ns
        due = [*self._unanswered.values(), *([self._sends_at_ns] if self._to_send else [])]
        if due:
            self.commands.append(WakeAt(min(due)))
