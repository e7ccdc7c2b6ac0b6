"""What happened to one connection lately: when it was opened and closed, and what it received."""

from collections import deque
from typing import Literal

from msgspec import Struct

from penstock.errors import mask_urls

KEPT_EVENTS = 50
KEPT_MS = 86_400_000
_LONGEST_REASON = 120
_RATE_NS = 2_000_000_000
"""The shortest time over which a rate is measured."""


class ConnectionEvent(Struct, frozen=True, array_like=True):
    """A connection was opened or closed."""

    at_ms: int
    what: Literal["opened", "closed"]
    reason: str = ""
    """Why it was closed; or the connection that it replaced."""


class ConnectionHistory:
    """The latest events of a connection, and of those that it replaced."""

    def __init__(self) -> None:
        self._events: deque[ConnectionEvent] = deque(maxlen=KEPT_EVENTS)
        self.reconnects = 0
        """How often it was lost, or could not be opened."""
        self.messages = 0
        self._measured = (0, 0)
        """The number of messages, and when (ns), at the last measurement of the rate."""
        self._per_second: float | None = None

    def opened(self, at_ns: int) -> None:
        """Note that it was opened."""
        self._events.append(ConnectionEvent(at_ns // 1_000_000, "opened"))
        self._measured = (self.messages, at_ns)

    def closed(self, reason: str, at_ns: int) -> None:
        """Note that it was closed, or could not be opened.

        Of several in a row only the first and the latest are kept: retries of a long outage would
        replace everything before it.
        """
        self.reconnects += 1
        if [each.what for each in list(self._events)[-2:]] == ["closed", "closed"]:
            self._events.pop()
        reason = mask_urls(reason)
        short = reason if len(reason) <= _LONGEST_REASON else reason[:_LONGEST_REASON] + "…"
        self._events.append(ConnectionEvent(at_ns // 1_000_000, "closed", short))

    def replaces(self, other: "ConnectionHistory", reason: str) -> None:
        """Continue the history of a connection that this one replaced."""
        before, own = list(other._events), list(self._events)
        if own and own[-1].what == "opened":
            # The other was still open then, or closed afterwards: there was no break.
            before = [each for each in before if each.at_ms <= own[-1].at_ms]
            own[-1] = ConnectionEvent(own[-1].at_ms, "opened", reason)
        self._events = deque([*before, *own], maxlen=KEPT_EVENTS)
        self.reconnects += other.reconnects

    def events(self, now_ms: int) -> list[ConnectionEvent]:
        """The events of the last 24 hours, the newest last."""
        return [each for each in self._events if each.at_ms > now_ms - KEPT_MS]

    @property
    def changed_ms(self) -> int | None:
        """When it was opened or closed last; the first of several failures in a row counts."""
        latest: ConnectionEvent | None = None
        for each in reversed(self._events):
            if latest is not None and each.what != latest.what:
                break
            latest = each
            if each.what == "opened":
                break
        return None if latest is None else latest.at_ms

    def per_second(self, now_ns: int) -> float | None:
        """Messages per second, measured over two seconds or more; None before the first."""
        messages, at_ns = self._measured
        if at_ns == 0 or now_ns < at_ns:  # the clock was set back
            self._measured = (self.messages, now_ns)
        elif now_ns - at_ns >= _RATE_NS:
            self._per_second = round((self.messages - messages) * 1e9 / (now_ns - at_ns), 1)
            self._measured = (self.messages, now_ns)
        return self._per_second
