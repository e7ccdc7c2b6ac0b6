"""Publishing: handing records to whoever listens, by topic and number.

A publisher never waits for its listeners and never fails for them: what cannot be delivered is
dropped. Nothing is lost by that, because every message carries its number in its topic and slot: a
listener that misses one reads it from the log of that slot.
"""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct


class Published(Protocol):
    """A record that has its number."""

    @property
    def topic(self) -> str:
        """Exchange, channel and symbol, such as ``sim.trades.btc_usdt``."""
        ...

    @property
    def slot(self) -> str: ...

    @property
    def number(self) -> int:
        """Rising by one per topic and slot."""
        ...

    @property
    def record(self) -> bytes: ...


class Message(Struct, frozen=True, gc=False):
    """The least that can be published."""

    topic: str
    slot: str
    number: int
    record: bytes


class Publisher(Protocol):
    """Sends messages in the order given."""

    def publish(self, messages: Sequence[Published]) -> None:
        """Hand over; returns at once, whether anybody listens or not."""
        ...

    def close(self) -> None: ...
