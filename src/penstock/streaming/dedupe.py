"""The deduplicator passes each event once, however many connections deliver it.

While several connections carry the same streams, every event arrives once per connection. Copies of
one event are distinguished from similar events by their *dedupe key*: the exchange's own number
where there is one, otherwise all fields, including the time. Where neither is sufficient an event
has no key, and only one connection's events can be used. The table of channels has the keys; a
dialect may replace some of them.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence

from penstock.market.channels import DEDUPE_KEYS, DedupeKey
from penstock.market.events import Event

REMEMBERED = 100_000
"""Keys in a generation: half a minute of three thousand events a second."""


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


Note = Callable[[Event, int, int | None, bool], None]
"""Called with an event, its connection, the one that had it before, and if it has a key."""


class Deduplicator:
    """Passes every event once, while enabled."""

    def __init__(self) -> None:
        self._keys: Mapping[type[Event], DedupeKey] = DEDUPE_KEYS
        self.passed: list[Event] = []
        self.dropped = 0
        """The number of dropped copies."""
        self._recent_keys: RecentKeys | None = None

    def replace_keys(self, keys: Mapping[type[Event], DedupeKey]) -> None:
        """Use these dedupe keys for some classes of events."""
        self._keys = {**DEDUPE_KEYS, **keys}

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
        self, events: Sequence[Event], member: int, note: Note | None, *, is_primary: bool
    ) -> None:
        """Pass events that are new; those without a key only from the primary."""
        assert self._recent_keys is not None
        seen, keys, passed = self._recent_keys.note, self._keys, self.passed.append
        for event in events:
            key = keys[type(event)](event)
            first = seen(key, member) if key is not None else None
            if first is None and (is_primary or key is not None):
                passed(event)
            else:
                self.dropped += 1
            if note is not None:
                note(event, member, first, key is not None)
