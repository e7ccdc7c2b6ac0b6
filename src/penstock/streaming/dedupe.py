"""The deduplicator passes each event once, however many connections deliver it.

While several connections carry the same streams, every event arrives once per connection. Copies of
one event are distinguished from similar events by their *dedupe key*: the exchange's own number
where there is one, otherwise all fields, including the time. Where neither is sufficient an event
has no key, and only one connection's events can be used.
"""

from collections.abc import Callable, Hashable, Sequence

from msgspec.structs import astuple, replace

from penstock.market.events import (
    AggTrade,
    AnyEvent,
    BookDelta,
    BookSnapshot,
    Candle,
    Disconnect,
    Ticker,
    Trade,
)

REMEMBERED = 100_000
"""Keys in a generation: half a minute of three thousand events a second."""


def dedupe_key(event: AnyEvent) -> Hashable | None:
    """Return what copies of an event share and no other event has; None if there is no key."""
    kind = type(event)
    if isinstance(event, Trade | AggTrade):
        return kind, event.symbol, event.id
    if isinstance(event, BookDelta):
        if event.final_update_id is None:
            return None
        return kind, event.symbol, event.first_update_id, event.final_update_id
    if isinstance(event, BookSnapshot):
        return (kind, event.symbol, event.update_id, event.source) if event.update_id else None
    if isinstance(event, Disconnect):
        return kind, event.symbol, event.received_at_ns
    if isinstance(event, Ticker) and event.update_id is not None:
        return kind, event.symbol, event.update_id
    if isinstance(event, Ticker) and event.at_ns is None:
        return None
    return contents(event)


def contents(event: Ticker | Candle) -> Hashable:
    """Return all fields of an event, except its receive time."""
    return type(event), *astuple(replace(event, received_at_ns=0))


class RecentKeys:
    """Recent keys, each with its first connection. Memory is bounded: the oldest are dropped."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        # Two generations: when the young one is full it replaces the old one, which is dropped.
        # So between one and two times so many are kept, at the cost of one or two look-ups.
        self._young: dict[Hashable, int] = {}
        self._old: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def note(self, key: Hashable, member: int) -> int | None:
        """Note a connection's key; return the connection that delivered it before, or None."""
        first = self._young.get(key)
        if first is None:
            first = self._old.get(key)
        if first is None:
            if len(self._young) >= self._remembered:
                self._old, self._young = self._young, {}
            self._young[key] = member
        return first


Note = Callable[[AnyEvent, int, int | None, bool], None]
"""Called with an event, its connection, the one that had it before, and if it has a key."""


class Deduplicator:
    """Passes every event once, while enabled."""

    def __init__(self) -> None:
        self.key_of: Callable[[AnyEvent], Hashable | None] = dedupe_key
        self.passed: list[AnyEvent] = []
        self.dropped = 0
        """The number of dropped copies."""
        self._recent_keys: RecentKeys | None = None

    @property
    def enabled(self) -> bool:
        """Whether copies are dropped."""
        return self._recent_keys is not None

    def enable(self) -> None:
        """Start dropping copies."""
        self._recent_keys = self._recent_keys or RecentKeys()

    def disable(self) -> None:
        """Stop dropping copies."""
        self._recent_keys = None

    def filter(
        self, events: Sequence[AnyEvent], member: int, note: Note | None, *, is_primary: bool
    ) -> None:
        """Pass events that are new; those without a key only from the primary."""
        assert self._recent_keys is not None
        seen, key_of, passed = self._recent_keys.note, self.key_of, self.passed.append
        for event in events:
            key = key_of(event)
            first = seen(key, member) if key is not None else None
            if first is None and (is_primary or key is not None):
                passed(event)
            else:
                self.dropped += 1
            if note is not None:
                note(event, member, first, key is not None)
