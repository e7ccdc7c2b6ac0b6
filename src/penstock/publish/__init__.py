"""Publishers send records to subscribers, by topic and record number.

A publisher never waits for subscribers and never fails because of them: messages that cannot be
delivered are dropped. No record is lost, because every message carries its number in its topic and
slot: a subscriber that misses a number reads it from the log of that slot.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from msgspec import Struct

from penstock.clock import Clock
from penstock.telemetry import Listener, quiet


class Published(Protocol):
    """A record with its number."""

    @property
    def topic(self) -> str:
        """Exchange, channel and symbol, such as ``sim.trades.btc_usdt``."""
        ...

    @property
    def slot(self) -> str: ...

    @property
    def number(self) -> int:
        """The number of the record, increasing by one per topic and slot."""
        ...

    @property
    def record(self) -> bytes: ...


class Message(Struct, frozen=True, gc=False):
    """The minimal ``Published``."""

    topic: str
    slot: str
    number: int
    record: bytes


class PublishedCounts(Struct):
    """Counts of a publisher's messages."""

    published: int = 0
    """Sent, or queued to be sent."""
    dropped: int = 0
    """Not sent: the queue was full, the publisher failed, or a message was too large."""
    unheard: int = 0
    """Not encoded, since there is no receiver yet."""


class Publisher(Protocol):
    """Sends messages in the order given."""

    def publish(self, messages: Sequence[Published]) -> None:
        """Send messages. If it raises, they count as dropped.

        It is called in a thread of its own, with a bounded queue before it, and may wait.
        """
        ...

    def close(self) -> None: ...


@runtime_checkable
class ImmediatePublisher(Publisher, Protocol):
    """A publisher that never waits and counts: it is called on the event loop, without a queue."""

    counts: PublishedCounts

    async def run(self) -> None:
        """Work beside publishing, such as announcements, until cancelled."""
        ...


@dataclass(frozen=True)
class PublishedSlot:
    """The slot of the log whose records are published."""

    slot: str
    log_id: int
    """Identifies the log: numbers are per log, slot and topic."""
    numbers: Mapping[str, int]
    """The last number of each topic."""
    clock: Clock
    listener: Listener = quiet


OpenPublisher = Callable[[PublishedSlot], Publisher]
