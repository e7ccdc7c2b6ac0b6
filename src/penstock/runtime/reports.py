"""What processes report of their connections, within their status.

It is part of the status, and not of a table of its own, since it is then as old as the status,
ends with it, and is read on every machine. It is bounded: a status is written every few seconds.
"""

from collections import Counter
from collections.abc import Iterable
from heapq import nlargest

from msgspec import Struct
from msgspec.structs import replace

from penstock.streaming.history import ConnectionEvent

MOST_CONNECTIONS, MOST_EVENTS = 100, 300
"""Of one process; beyond, the newest events are kept."""


class ConnectionReport(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One connection of a process to the streams of an exchange."""

    exchange: str
    name: str
    """Unique in its process: the number of its shard, a dot and its own number."""
    state: str
    """disconnected, connecting, connected, reconnecting, or leaving while it is being closed."""
    since_ms: int | None = None
    """When it was opened, or lost; None if it was never open."""
    messages: int | None = None
    """Received since the process has it; None if a library reads the socket."""
    messages_per_s: float | None = None
    last_message_ms: int | None = None
    asked: int = 0
    """Streams that are subscribed to."""
    pending: int = 0
    """Streams of these that the exchange has not acknowledged yet."""
    lifetime_ms: int | None = None
    """The age at which the exchange closes it; None if it does not."""
    reconnects: int = 0
    events: list[ConnectionEvent] = []
    """The latest, the newest last."""


def bounded(found: Iterable[ConnectionReport]) -> list[ConnectionReport]:
    """The first connections, with the newest of their events, so that a status stays small."""
    kept = list(found)[:MOST_CONNECTIONS]
    # Of one time the last of each connection first: many connections may be lost at once.
    newest = nlargest(
        MOST_EVENTS,
        (
            (event.at_ms, -before_last, number)
            for number, each in enumerate(kept)
            for before_last, event in enumerate(reversed(each.events))
        ),
    )
    counts = Counter(number for _, _, number in newest)
    return [
        replace(each, events=each.events[len(each.events) - counts[number] :])
        for number, each in enumerate(kept)
    ]
