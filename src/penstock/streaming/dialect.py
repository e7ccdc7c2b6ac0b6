"""A dialect implements one exchange's stream protocol, without a socket.

It names streams, builds the messages that subscribe to them, and parses each frame. The same code
handles frames from a socket, a recording or a test. ``read`` never raises, whatever an exchange
sends: a frame that cannot be parsed is returned as ``Malformed``, with the reason, and does not
affect others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from penstock.books.rules import BookRules
from penstock.market.channels import DedupeKey
from penstock.market.events import Event
from penstock.market.symbol import Symbol


class Ack(NamedTuple):
    """The exchange executed a request, or has begun to send requested streams."""

    request_id: int | None
    """None where the exchange does not return the id; then ``names`` identify the request."""
    names: tuple[str, ...] = ()
    """The acknowledged streams, where each is acknowledged separately; empty means all."""


class Refusal(NamedTuple):
    """The exchange refused a request; ``request_id`` is None where it is not returned."""

    request_id: int | None
    code: int | str
    words: str
    names: tuple[str, ...] = ()
    """The refused streams, where others of the request are accepted; empty means all."""


class Notice(NamedTuple):
    """The exchange announces that it will close the connection."""

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
    """A frame that does not match the exchange's documentation."""

    reason: Reason
    words: str
    """What exactly was wrong."""
    excerpt: str
    """The start of the frame."""
    stream: str = ""
    """Its stream, where that can be determined."""


Received = Event | Ack | Refusal | Notice | Malformed


@dataclass(frozen=True)
class StreamLimits:
    """What an exchange allows on its stream connections."""

    streams_per_connection: int
    names_per_message: int
    """How many streams one message may request."""
    messages_per_second: int
    """Messages a client may send on one connection, pings and pongs included."""
    connects: int
    """Connections that may be opened per ``connects_period_s``."""
    connects_period_s: float
    lifetime_s: float | None
    """After how long the exchange closes any connection; None if it does not."""
    heartbeat_s: float
    """The longest time without any message or ping on a healthy connection."""
    pings_are_life: bool = True
    """False where messages are as frequent: there a connection with only pings is dead, too."""
    mixed_channels: bool = True
    """Whether one message may request streams of several channels."""
    acknowledges: bool = True
    """False where requests are not answered: only data shows that a stream runs, and a stream
    without data may be of a quiet market."""
    ping: str = ""
    """The message to send every ``ping_every_s``, where the exchange requires one or is silent on
    quiet streams; empty for none."""
    ping_every_s: float = 30.0


class Dialect(Protocol):
    """One exchange's stream protocol. An instance serves one connection."""

    limits: StreamLimits
    books: BookRules
    channels: Sequence[str]
    """The channels it can stream. ``book_deltas`` is the one that maintains a book: changes, or
    whole books where an exchange sends nothing else."""

    def url(self, base: str) -> str:
        """The address to connect to, given the base address of the exchange's streams."""
        ...

    def streams(self, channel: str, symbols: Sequence[Symbol]) -> list[str]:
        """The unique names of streams, one per symbol; frames of other streams are not read.

        Raises:
            UnknownChannel: the exchange does not stream that.
            UnknownSymbol: the exchange does not list it.
        """
        ...

    def subscribe(self, names: Sequence[str], request_id: int) -> str:
        """The message that requests streams; of one channel, unless ``mixed_channels``."""
        ...

    def unsubscribe(self, names: Sequence[str], request_id: int) -> str:
        """The message that unsubscribes streams, likewise; empty if none is needed."""
        ...

    def read(self, frame: bytes | str, received_at_ns: int) -> list[Received]:
        """Return the contents of a frame, in order; empty for a heartbeat. Never raises.

        Numbers in events are checked to be plain numbers; users need not check again.
        """
        ...


@runtime_checkable
class ReadsMany(Protocol):
    """A dialect that reads many frames together faster than one by one."""

    def read_many(
        self, frames: Sequence[bytes | str], received_at_ns: Sequence[int]
    ) -> list[Event] | None:
        """Return the events that ``read`` would find in these frames, in order. Never raises.

        None unless the frames hold events and nothing else: the caller then reads smaller parts,
        to find the answers and malformed frames.
        """
        ...


@runtime_checkable
class HasDedupeKeys(Protocol):
    """A dialect whose exchange sends an event with another timestamp on every connection."""

    dedupe_keys: Mapping[type[Event], DedupeKey]
    """By class of events, the keys that replace those of the table of channels."""
