"""Asking: the messages a connection has to send, and which of them were answered.

Messages go out evenly spaced, within what the exchange allows. Some exchanges answer a message as a
whole, some stream by stream, some only by listing what they send; so what is waited for is
streams, by name.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.streaming.dialect import Dialect

ACK_WITHIN_S = 5.0
SECOND_NS = 1_000_000_000
ACK_WITHIN_NS = round(ACK_WITHIN_S * SECOND_NS)


class _Message(NamedTuple):
    text: str
    request_id: int | None
    """None if nobody waits for an answer."""
    names: tuple[str, ...]
    again: bool


class _Waiting:
    """The streams of one message that were not answered yet."""

    __slots__ = ("again", "due_ns", "names", "partly")

    def __init__(self, names: Iterable[str], due_ns: int, *, again: bool) -> None:
        self.names, self.due_ns, self.again = set(names), due_ns, again
        self.partly = False
        """Whether some were."""


class Overdue(NamedTuple):
    """What should have been answered by now."""

    silent: bool
    """A message as a whole was not: the connection is of no use."""
    given_up: tuple[str, ...]
    """Streams that alone were not, though they were asked for twice."""


class Asking:
    """What is asked for on one connection."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._messages: deque[_Message] = deque()
        self._waiting: dict[int, _Waiting] = {}
        self._later: list[tuple[int, tuple[str, ...]]] = []
        """When streams are to be asked for once more."""
        self._request_id = 0
        self._sends_at_ns = 0

    @property
    def settled(self) -> bool:
        """Whether everything was sent and answered; streams to be asked for later do not count."""
        return not (self._messages or self._waiting)

    def clear(self, at_ns: int) -> None:
        """Forget everything: there is a new connection, or none."""
        self._messages.clear()
        self._waiting.clear()
        self._later.clear()
        self._sends_at_ns = at_ns

    def ask(self, names: Sequence[str], *, again: bool = False) -> None:
        """Ask for these streams, as many at a time as the exchange allows."""
        step = self._dialect.limits.names_per_message
        for start in range(0, len(names), step):
            some = tuple(names[start : start + step])
            self._request_id += 1
            text = self._dialect.subscribe(some, self._request_id)
            self._messages.append(_Message(text, self._request_id, some, again))

    def ask_halves(self, names: Sequence[str]) -> None:
        """Ask for these streams, which were refused together, in two messages."""
        middle = len(names) // 2
        for half in (names[:middle], names[middle:]):
            self.ask(half, again=True)

    def ask_later(self, names: Sequence[str], at_ns: int) -> None:
        """Ask for these streams, which were refused, once more at that instant."""
        self._later.append((at_ns, tuple(names)))

    def ask_anew(self, name: str) -> None:
        """End a stream and ask for it again, for what the exchange sends at its head."""
        self._request_id += 1
        # Nobody waits for the first answer: the second tells all there is to know.
        text = self._dialect.unsubscribe((name,), self._request_id)
        self._messages.append(_Message(text, None, (), again=False))
        self.ask((name,), again=True)

    def end(self, names: Sequence[str]) -> None:
        """End these streams, and wait for none of them any longer."""
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
        step = self._dialect.limits.names_per_message
        for start in range(0, len(names), step):
            self._request_id += 1
            text = self._dialect.unsubscribe(names[start : start + step], self._request_id)
            self._messages.append(_Message(text, None, (), again=False))

    def pending(self) -> list[str]:
        """Streams that are to be asked for, or were and are not answered yet."""
        queued = [name for message in self._messages for name in message.names]
        return queued + [name for each in self._waiting.values() for name in sorted(each.names)]

    def take_due(self, at_ns: int) -> list[tuple[str, tuple[str, ...]]]:
        """The messages to send at this instant, each with the streams it asks for."""
        for each in [each for each in self._later if each[0] <= at_ns]:
            self._later.remove(each)
            self.ask(each[1], again=True)
        due = []
        # Evenly spaced rather than in bursts: the exchange counts pongs as messages too, so one
        # place a second is left free for them.
        space_ns = SECOND_NS // max(1, self._dialect.limits.messages_per_second - 1)
        while self._messages and at_ns >= self._sends_at_ns:
            text, request_id, names, again = self._messages.popleft()
            due.append((text, names))
            if request_id is not None and names:
                self._waiting[request_id] = _Waiting(names, at_ns + ACK_WITHIN_NS, again=again)
            self._sends_at_ns = at_ns + space_ns
        return due

    def answered(self, request_id: int | None, names: Sequence[str]) -> tuple[str, ...]:
        """Note an answer; the streams it speaks of, which are all of the request if it names none.

        An answer to something that nobody waits for is none.
        """
        if request_id is not None and not names:
            whole = self._waiting.pop(request_id, None)
            return tuple(sorted(whole.names)) if whole else ()
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
        """What was not answered in time; streams whose neighbours were are asked for once more."""
        given_up: list[str] = []
        for number, waiting in list(self._waiting.items()):
            if waiting.due_ns > at_ns:
                continue
            if not (waiting.partly or waiting.again):
                return Overdue(silent=True, given_up=())
            del self._waiting[number]
            if waiting.again:
                given_up += sorted(waiting.names)
            else:
                self.ask(sorted(waiting.names), again=True)
        return Overdue(silent=False, given_up=tuple(given_up))

    def next_ns(self) -> int | None:
        """When there is something to do."""
        due = [waiting.due_ns for waiting in self._waiting.values()]
        due += [at_ns for at_ns, _ in self._later]
        if self._messages:
            due.append(self._sends_at_ns)
        return min(due, default=None)
