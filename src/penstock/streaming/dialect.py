"""The dialect: what one exchange's stream protocol supplies, without a socket.

A dialect names streams, words the messages that ask for them, and turns each frame into what it
says. It is the same code whether frames come from a socket, a recording or a test. Nothing an
exchange may send makes ``read`` raise: what cannot be read is returned as ``Malformed``, with the
reason, and harms nobody else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from penstock.market.events import AnyEvent
from penstock.market.symbol import Symbol


class Ack(NamedTuple):
    """The exchange carried out the request of that number."""

    request_id: int


class Refusal(NamedTuple):
    """The exchange did not carry out a request; None where it does not say which."""

    request_id: int | None
    code: int | str
    words: str


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


Received = AnyEvent | Ack | Refusal | Notice | Malformed


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


class Dialect(Protocol):
    """One exchange's stream protocol. An instance serves one connection."""

    limits: StreamLimits
    channels: Sequence[str]
    """The kinds of data it can stream; ``candles_1m`` stands for every interval."""

    def url(self, base: str) -> str:
        """The address to connect to, given where the exchange's streams are."""
        ...

    def streams(self, channel: str, symbols: Sequence[Symbol]) -> list[str]:
        """The exchange's names of these streams, one per symbol; frames of no others are read.

        Raises:
            UnknownChannel: the exchange does not stream that.
            UnknownSymbol: the exchange does not list it.
        """
        ...

    def subscribe(self, names: Sequence[str], request_id: int) -> str:
        """The message that asks for these streams."""
        ...

    def unsubscribe(self, names: Sequence[str], request_id: int) -> str:
        """The message that ends them."""
        ...

    def read(self, frame: bytes | str, received_at_ns: int) -> list[Received]:
        """What a frame says, in order; empty for a heartbeat. Never raises.

        The numbers of an event are numbers: whoever is given one need not look again.
        """
        ...
