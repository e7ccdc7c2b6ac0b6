"""Commands of this folder's state machines to the owner of the sockets and the clock."""

from dataclasses import dataclass
from typing import NamedTuple

from penstock.books.commands import BookCommand
from penstock.market.symbol import Symbol


class Open(NamedTuple):
    """Open the socket."""


class Send(NamedTuple):
    """Send a text frame."""

    text: str


class Close(NamedTuple):
    """Close the socket; ``closed`` is expected to follow."""

    reason: str


class Rotate(NamedTuple):
    """Open another connection, and close this one once the other has taken over."""

    reason: str


class WakeAt(NamedTuple):
    """Call ``woken`` at this time, or later."""

    at_ns: int


Command = Open | Send | Close | Rotate | WakeAt | BookCommand


@dataclass(frozen=True)
class Subscription:
    """A channel, and the symbols to stream."""

    channel: str
    symbols: tuple[Symbol, ...]
