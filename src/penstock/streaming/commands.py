"""Commands: what the machines of this folder ask of whoever owns the sockets and the clock."""

from dataclasses import dataclass
from typing import NamedTuple

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


class FetchSnapshot(NamedTuple):
    """After a pause, ask the exchange for a book; hand it in, or say that it could not be had."""

    symbol: Symbol
    after_s: float


class WakeAt(NamedTuple):
    """Call ``woken`` at this instant, or later."""

    at_ns: int


Command = Open | Send | Close | Rotate | FetchSnapshot | WakeAt


@dataclass(frozen=True)
class Subscription:
    """What to stream."""

    channel: str
    symbols: tuple[Symbol, ...]
