"""The subscribe and unsubscribe messages of a connection, and which of them were answered.

Messages are sent evenly spaced, within the exchange's limit. Some exchanges answer a message as a
whole, some stream by stream, some only with a list of what they send. So pending answers are kept
per stream, by name.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from penstock.resilience.backoff import Backoff
from penstock.streaming.dialect import Dialect

ACK_WITHIN_S = 5.0
SECOND_NS = 1_000_000_000
ACK_WITHIN_NS = round(ACK_WITHIN_S * SECOND_NS)
_UNHEARD_AGAIN = Backoff(first_s=10.0, longest_s=600.0, jitter=0.0)
"""The delays between requests for streams without data, where nothing is acknowledged."""


class _Message(NamedTuple):
    text: str
    request_id: int | None
    """None if no answer is awaited."""
    names: tuple[str, ...]
    again: bool


class _Waiting:
    """The streams of one message that were not answered yet."""

    __slots__ = ("again", "due_ns", "names", "partly")

    def __init__(self, names: Iterable[str], due_ns: int, *, again: bool) -> None:
        self.names, self.due_ns, self.again = set(names), due_ns, again
        self.partly = False
        """Whether some were answered."""


class Overdue(NamedTuple):
    """Requests that were not answered in time."""

    silent: bool
    """Whether a whole message was not answered: the connection is unusable."""
    given_up: tuple[str, ...]
    """Single streams that were not answered, though they were requested twice."""
    names: tuple[str, ...] = ()
    """All streams that were not answered in time."""


class SubscribeRequests:
    """The requests of one connection."""

    def __init__(
        self,
        dialect: Dialect,
        group_of: Callable[[str], str] = lambda _: "",
        ack_within_ns: int = ACK_WITHIN_NS,
    ) -> None:
        """Only streams with the same ``group_of`` may be requested in one message."""
        self._dialect, self._group_of, self._ack_within_ns = dialect, group_of, ack_within_ns
        self._messages: deque[_Message] = deque()
        self._waiting: dict[int, _Waiting] = {}
        self._later: list[tuple[int, tuple[str, ...]]] = []
        """Streams to be requested once more, and when."""
        self._unheard: dict[str, None] = {}
        """Streams without data so far, where only data acknowledges them."""
        self._unheard_at_ns = self._unheard_tries = 0
        self._request_id = 0
        self._sends_at_ns = 0

    @property
    def settled(self) -> bool:
        """Whether everything was sent and answered; streams to be requested later do not count.

        Nor do streams that may just be quiet: see ``unheard``.
        """
        return not (self._messages or self._waiting)

    def clear(self, at_ns: int) -> None:
        """Drop all requests: there is a new connection, or none."""
        self._messages.clear()
        self._waiting.clear()
        self._later.clear()
        self._unheard.clear()
        self._unheard_tries = 0
        self._sends_at_ns = at_ns

    @property
    def unheard(self) -> frozenset[str]:
        """Streams that were requested more than once and have delivered nothing yet.

        Only where an exchange does not acknowledge streams; the market may just be quiet.
        """
        return frozenset(self._unheard)

    def ask(self, names: Iterable[str], *, again: bool = False) -> None:
        """Request these streams, as many per message as the exchange allows."""
        for some in self._split(names):
            self._request_id += 1
            text = self._dialect.subscribe(some, self._request_id)
            self._messages.append(_Message(text, self._request_id, some, again))

    def ask_halves(self, names: Sequence[str]) -> None:
        """Request streams that were refused together, in two messages."""
        middle = len(names) // 2
        for half in (names[:middle], names[middle:]):
            self.ask(half, again=True)

    def ask_later(self, names: Sequence[str], at_ns: int) -> None:
        """Request refused or unanswered streams again at that time."""
        self._later.append((at_ns, tuple(names)))

    def resubscribe(self, name: str) -> None:
        """Unsubscribe a stream and subscribe again, for what the exchange sends first."""
        # The first answer is not awaited: the second is sufficient.
        self._unsubscribe((name,))
        self.ask((name,), again=True)

    def end(self, names: Sequence[str]) -> None:
        """Unsubscribe these streams, and stop waiting for their answers."""
        ended = set(names)
        self._messages = deque(
            each._replace(names=tuple(name for name in each.names if name not in ended))
            for each in self._messages
        )
        for number, waiting in list(self._waiting.items()):
            waiting.names -= ended
            if not waiting.names:
                del self._waiting[number]
        self._later = [
            (at_ns, kept)
            for at_ns, some in self._later
            if (kept := tuple(name for name in some if name not in ended))
        ]
        for name in ended:
            self._unheard.pop(name, None)
        for some in self._split(names):
            self._unsubscribe(some)

    def pending(self) -> list[str]:
        """Streams that are to be requested, or were requested and not answered yet."""
        queued = [name for message in self._messages for name in message.names]
        queued += [name for each in self._waiting.values() for name in sorted(each.names)]
        return list(dict.fromkeys([*queued, *self._unheard]))

    def _split(self, names: Iterable[str]) -> Iterator[tuple[str, ...]]:
        """Split streams, without duplicates, into messages."""
        groups: dict[str, dict[str, None]] = {}
        for name in names:
            groups.setdefault(self._group_of(name), {})[name] = None
        step = self._dialect.limits.names_per_message
        for group in groups.values():
            some = tuple(group)
            yield from (some[start : start + step] for start in range(0, len(some), step))

    def _unsubscribe(self, names: Sequence[str]) -> None:
        self._request_id += 1
        text = self._dialect.unsubscribe(names, self._request_id)
        if text:
            self._messages.append(_Message(text, None, (), again=False))

    def take_due(self, at_ns: int) -> list[tuple[str, tuple[str, ...]]]:
        """Return the messages to send now, each with the streams it requests."""
        for each in [each for each in self._later if each[0] <= at_ns]:
            self._later.remove(each)
            self.ask(each[1], again=True)
        if self._unheard and at_ns >= self._unheard_at_ns:
            self.ask([*self._unheard], again=True)
            self._plan_unheard(at_ns)
        due = []
        # Evenly spaced, not in bursts. The exchange counts pongs as messages too, so one message
        # a second is left free for them.
        space_ns = SECOND_NS // max(1, self._dialect.limits.messages_per_second - 1)
        while self._messages and at_ns >= self._sends_at_ns:
            text, request_id, names, again = self._messages.popleft()
            due.append((text, names))
            waits_for = [name for name in names if name not in self._unheard]
            if request_id is not None and waits_for:
                due_ns = at_ns + self._ack_within_ns
                self._waiting[request_id] = _Waiting(waits_for, due_ns, again=again)
            self._sends_at_ns = at_ns + space_ns
        return due

    def answered(self, request_id: int | None, names: Sequence[str]) -> tuple[str, ...]:
        """Note an answer; return its streams, which are all of the request if it names none.

        An answer that names none, to a request that is not pending, has no streams.
        """
        if request_id is not None and not names:
            whole = self._waiting.pop(request_id, None)
            return tuple(sorted(whole.names)) if whole else ()
        for name in names:
            self._unheard.pop(name, None)
        numbers = list(self._waiting) if request_id is None else [request_id]
        for number in numbers:
            waiting = self._waiting.get(number)
            if waiting is not None and not waiting.names.isdisjoint(names):
                waiting.names.difference_update(names)
                waiting.partly = True
                if not waiting.names:
                    del self._waiting[number]
        return tuple(names)

    def overdue(self, at_ns: int) -> Overdue:
        """Return what was not answered in time; request single missing streams once more."""
        acknowledges = self._dialect.limits.acknowledges
        late: list[str] = []
        given_up: list[str] = []
        for number, waiting in list(self._waiting.items()):
            if waiting.due_ns > at_ns:
                continue
            late += sorted(waiting.names)
            if acknowledges and not (waiting.partly or waiting.again):
                return Overdue(silent=True, given_up=(), names=tuple(late))
            del self._waiting[number]
            if not waiting.again:
                self.ask(sorted(waiting.names), again=True)
            elif acknowledges:
                given_up += sorted(waiting.names)
            else:
                if not self._unheard:
                    self._unheard_tries = 0
                    self._plan_unheard(at_ns)
                self._unheard.update(dict.fromkeys(sorted(waiting.names)))
        return Overdue(silent=False, given_up=tuple(given_up), names=tuple(late))

    def _plan_unheard(self, at_ns: int) -> None:
        pause_s = _UNHEARD_AGAIN.delay(self._unheard_tries, 0.0)
        self._unheard_at_ns = at_ns + round(pause_s * SECOND_NS)
        self._unheard_tries += 1

    def next_ns(self) -> int | None:
        """When the next action is due; None if there is none."""
        due = [waiting.due_ns for waiting in self._waiting.values()]
        due += [at_ns for at_ns, _ in self._later]
        if self._unheard:
            due.append(self._unheard_at_ns)
        if self._messages:
            due.append(self._sends_at_ns)
        return min(due, default=None)
