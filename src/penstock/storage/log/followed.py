"""What follows a log: the new records of chosen streams, several times a second."""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from penstock.market.events import Event
from penstock.storage.log.keys import Stream


class Followed(NamedTuple):
    """A new record."""

    received_at_ns: int
    slot: str
    event: Event


class LogFollower(Protocol):
    """The new records of chosen streams of all slots, by a reader that is used between its calls
    only, and closed after it. Not thread-safe.

    A record that several slots hold is returned several times. One that this version cannot read
    is left out. Every method may raise StorageError.
    """

    def follow(self, stream: Stream, since_ns: int) -> None:
        """Follow a stream from now on, beginning with what was received since a time.

        It may begin earlier, with all that was received in the same second or written at once.
        """
        ...

    def forget(self, streams: Iterable[Stream]) -> None:
        """Follow these streams no longer."""
        ...

    def new(self, now_ns: int) -> list[Followed]:
        """What was recorded since the last call, in the order of receipt.

        ``now_ns`` is any steady clock: slots without anything new are read once a second.
        """
        ...
