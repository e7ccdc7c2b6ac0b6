"""Publishers send records to subscribers, by topic and number.

A publisher never waits for subscribers and never fails because of them: messages that cannot be
delivered are dropped. No record is lost, because every message carries its number in its topic and
slot: a subscriber that misses a number reads it from the log of that slot.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


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


class Publisher(Protocol):
    """Sends messages in the order given."""

    def publish(self, messages: Sequence[Published]) -> None:
        """Send messages; returns at once, with or without subscribers."""
        ...

    def close(self) -> None: ...
