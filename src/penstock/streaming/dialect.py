"""The dialect: what one exchange's stream protocol supplies, without a socket.

A dialect names streams, words the messages that ask for them, and turns each frame into what it
says. It is the same code whether frames come from a socket, a recording or a test. Nothing an
exchange may send makes ``read`` raise: what cannot be read is returned as ``Malformed``, with the
reason, and harms nobody else.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from penstock.market.events import AnyEvent
from penstock.market.symbol import Symbol
from penstock.market.top_book import Checksum


class Ack(NamedTuple):
    """The exchange carried out a request, or has begun to send streams that were asked for."""

    request_id: int | None
    """None where the exchange does not say which it answers; then ``names`` tell."""
    names: tuple[str, ...] = ()
    """The streams it speaks of, where it acknowledges them one by one; empty means all."""


class Refusal(NamedTuple):
    """The exchange did not carry out a request; None where it does not say which."""

    request_id: int | None
    code: int | str
    words: str
    names: tuple[str, ...] = ()
    """The streams it refuses, where the others of the request are not; empty means all."""


class Notice(NamedTuple):
    """The exchange is about to close the connection, and says so beforehand."""

    kind: Literal["closing"]
    at_ms: int | None


Reason = Literal[
    "too_large",
    "too_deep",
    "not_json",
    "wrong_shape",
    "not_a_number",
    "not_asked_for",
    "unknown_message",
]


class Malformed(NamedTuple):
    """A frame that is not what the exchange's documentation says."""

    reason: Reason
    words: str
    """What exactly was wrong."""
    excerpt: str
    """How the frame begins."""
    stream: str = ""
    """What it came on, where that can be told."""


Received = AnyEvent | Ack | Refusal | Notice | Malformed


BookState = Literal["syncing", "synced", "stale"]
"""Whether a book can be believed: not yet, now, or no longer; a reason stands beside it."""


@dataclass(frozen=True)
class BookRules:
    """How a book of an exchange is begun, and how it is known to be right."""

    begins: Literal["rest", "stream", "frame"] = "rest"
    """With a snapshot fetched apart and joined by the updates' numbers; with one in the stream,
    sent anew when the stream is asked for anew; or with every frame, which is a whole book."""
    depth: int | None = None
    """Levels a side the stream tells of, where it does not say when one is pushed out of them."""
    checksum: Checksum | None = None
    """What every change carries, of the book after it; only of one with a depth."""
    fetched_levels: int | None = None
    """Levels a side a book fetched by REST has at most, however many are asked for."""
    fetched_decimals: int | None = None
    """Decimals that quantities are rounded to in books fetched by REST; None if they are not."""

    @property
    def shows_loss(self) -> bool:
        """Whether what follows a lost change tells that it was lost."""
        return self.begins != "stream" or self.checksum is not None


@dataclass(frozen=True)
class StreamLimits:
    """What an exchange allows on its stream connections."""

    streams_per_connection: int
    names_per_message: int
    """How many streams one message may ask for."""
    messages_per_second: int
    """Messages a client may send on one connection, pings and pongs included."""
    connects: int
    """Connections that may be opened per ``connects_period_s``."""
    connects_period_s: float
    lifetime_s: float | None
    """After how long the exchange closes any connection; None if it does not."""
    heartbeat_s: float
    """The longest a healthy connection stays without so much as a ping from the exchange."""
    pings_are_life: bool = True
    """False where messages come that often: a connection that only pings is then dead too."""
    mixed_channels: bool = True
    """Whether one message may ask for streams of several channels."""
    acknowledges: bool = True
    """False where requests are not answered: only what a stream brings tells that it runs, and a
    stream that brings nothing may be of a quiet market."""
    ping: str = ""
    """What to say every ``ping_every_s`` where the exchange wants to hear from a client, or is
    silent on quiet streams; nothing if it is empty."""
    ping_every_s: float = 30.0


class Dialect(Protocol):
    """One exchange's stream protocol. An instance serves one connection."""

    limits: StreamLimits
    books: BookRules
    channels: Sequence[str]
    """The kinds of data it can stream. ``book_deltas`` is what keeps a book: changes, or whole
    books where an exchange sends nothing else."""

    def url(self, base: str) -> str:
        """The address to connect to, given where the exchange's streams are."""
        ...

    def streams(self, channel: str, symbols: Sequence[Symbol]) -> list[str]:
        """Names of these streams, one per symbol and no two alike; frames of no others are read.

        Raises:
            UnknownChannel: the exchange does not stream that.
            UnknownSymbol: the exchange does not list it.
        """
        ...

    def subscribe(self, names: Sequence[str], request_id: int) -> str:
        """The message that asks for these streams; without ``mixed_channels``, all of one."""
        ...

    def unsubscribe(self, names: Sequence[str], request_id: int) -> str:
        """The message that ends them, of one channel likewise; empty if there is none to send."""
        ...

    def read(self, frame: bytes | str, received_at_ns: int) -> list[Received]:
        """What a frame says, in order; empty for a heartbeat. Never raises.

        The numbers of an event are numbers: whoever is given one need not look again.
        """
        ...


@runtime_checkable
class ReadsMany(Protocol):
    """A dialect that reads many frames together in less time than one by one."""

    def read_many(
        self, frames: Sequence[bytes | str], received_at_ns: Sequence[int]
    ) -> list[AnyEvent] | None:
        """The events that ``read`` would find in these frames, in order. Never raises.

        None unless the frames hold events and nothing else: whoever asked then reads them one by
        one and learns which is an answer, and which is malformed.
        """
        ...


@runtime_checkable
class HasDedupeKey(Protocol):
    """A dialect whose exchange stamps an event anew on every connection."""

    def dedupe_key(self, event: AnyEvent) -> Hashable | None:
        """What copies of an event on two connections share, and no other event has.

        None if nothing tells. Without this, ``dedupe.dedupe_key`` is what counts.
        """
        ...
