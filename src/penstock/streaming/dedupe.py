"""Dedupe: the same event from two connections is one event.

While more than one connection brings the same streams, every event comes as often as there are
connections. What tells copies of one event from two events that look alike is its *dedupe key*: the
exchange's own number where there is one, and otherwise everything it says, its time included. Where
neither is enough an event has no key, and only one connection can be listened to.
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
    """What copies of an event share and no other event has; None if nothing tells."""
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
    """All that an event says, but not when it arrived."""
    return type(event), *astuple(replace(event, received_at_ns=0))


class RecentKeys:
    """The keys seen lately, and who brought each first. Memory is bounded: the oldest go."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        # Two generations: when the younger is full it becomes the older, which is forgotten. So
        # between one and two times so many are known, at the price of one or two look-ups.
        self._young: dict[Hashable, int] = {}
        self._old: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def note(self, key: Hashable, member: int) -> int | None:
        """Note that a connection brought a key; who did before, or None if nobody did."""
        first = self._young.get(key)
        if first is None:
            first = self._old.get(key)
        if first is None:
            if len(self._young) >= self._remembered:
                self._old, self._young = self._young, {}
            self._young[key] = member
        return first


Note = Callable[[AnyEvent, int, int | None, bool], None]
"""Is told of an event, who brought it, who had brought it before, and whether it has a key."""


class Deduplicator:
    """Lets every event through once, while it is in use."""

    def __init__(self) -> None:
        self.key_of: Callable[[AnyEvent], Hashable | None] = dedupe_key
        self.passed: list[AnyEvent] = []
        self.dropped = 0
        """Copies that were held back."""
        self._recent_keys: RecentKeys | None = None

    @property
    def enabled(self) -> bool:
        """Whether copies may come."""
        return self._recent_keys is not None

    def enable(self) -> None:
        """From now on copies may come."""
        self._recent_keys = self._recent_keys or RecentKeys()

    def disable(self) -> None:
        """From now on there are none."""
        self._recent_keys = None

    def filter(
        self, events: Sequence[AnyEvent], member: int, note: Note | None, *, is_primary: bool
    ) -> None:
        """Let through what nobody has brought, and what has no key only from the primary."""
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
